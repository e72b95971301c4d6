-- Rights in a schema ($1) that a store does not give: those of PUBLIC, and objects of another owner
-- than its own. A function may be executed by everyone; these change and show nothing by themselves.
WITH object AS (
    SELECT 'schema ' || n.nspname AS object, n.nspacl AS acl, n.nspowner AS owner
      FROM pg_namespace n WHERE n.nspname = $1
    UNION ALL
    SELECT CASE c.relkind WHEN 'v' THEN 'view ' ELSE 'table ' END || c.relname, c.relacl, c.relowner
      FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE n.nspname = $1 AND c.relkind IN ('r', 'p', 'v', 'm')
    UNION ALL
    SELECT 'column ' || c.relname || '.' || a.attname, a.attacl, NULL
      FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid
     WHERE n.nspname = $1 AND a.attacl IS NOT NULL
    UNION ALL
    SELECT 'function ' || f.proname || '(' || pg_get_function_identity_arguments(f.oid) || ')', NULL, f.proowner
      FROM pg_proc f JOIN pg_namespace n ON n.oid = f.pronamespace WHERE n.nspname = $1
)
SELECT o.object, NULL::text AS expected,
       'PUBLIC has ' || string_agg(a.privilege_type, ', ' ORDER BY a.privilege_type) AS found
  FROM object o CROSS JOIN LATERAL aclexplode(o.acl) a
 WHERE a.grantee = 0
 GROUP BY o.object
UNION ALL
SELECT o.object, 'owner ' || pg_get_userbyid(m.relowner), 'owner ' || pg_get_userbyid(o.owner)
  FROM object o
  JOIN pg_namespace n ON n.nspname = $1
  JOIN pg_class m ON m.relnamespace = n.oid AND m.relname = 'migrations'
 WHERE o.owner <> m.relowner AND o.object NOT LIKE 'schema %'
