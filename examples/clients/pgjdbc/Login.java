import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.HashSet;
import java.util.Set;

/**
 * pgjdbc logs in, and says {@code ok} and its first argument.
 *
 * <p>Where and how: JDBC_URL, such as {@code jdbc:postgresql://localhost:7432/default?sslmode=verify-full&sslrootcert=ca.crt};
 * as whom: PGUSER and PGPASSWORD, or {@code user} and {@code password} in the URL. The key of a certificate of one's own
 * ({@code sslcert}, {@code sslkey}) is in PKCS #8, DER.
 */
public final class Login {
    public static void main(String[] arguments) throws SQLException {
        String url = System.getenv().getOrDefault("JDBC_URL", "jdbc:postgresql://localhost:7432/default");
        String user = System.getenv("PGUSER");
        String password = System.getenv("PGPASSWORD");
        try (Connection connection = DriverManager.getConnection(url, user, password);
                Statement statement = connection.createStatement()) {
            statement.execute("CREATE ROLE IF NOT EXISTS example_pgjdbc");
            check(roles(statement).contains("example_pgjdbc"), "the new role is not there");

            connection.setAutoCommit(false);
            statement.execute("CREATE ROLE example_pgjdbc_undone");
            connection.rollback();
            check(!roles(statement).contains("example_pgjdbc_undone"), "what was rolled back is there");
            connection.commit();
        } catch (SQLException error) {
            System.err.println(error.getSQLState() + " " + error.getMessage());
            System.exit(1);
        }
        System.out.println("ok" + (arguments.length > 0 ? " " + arguments[0] : ""));
    }

    private static Set<String> roles(Statement statement) throws SQLException {
        Set<String> roles = new HashSet<>();
        try (ResultSet rows = statement.executeQuery("SHOW ROLES")) {
            while (rows.next()) {
                roles.add(rows.getString("name"));
            }
        }
        return roles;
    }

    private static void check(boolean holds, String what) {
        if (!holds) {
            System.err.println(what);
            System.exit(1);
        }
    }
}
