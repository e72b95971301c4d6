-- The control plane's state: one row a record, in the tables that every backend has.
--
-- Run by "dataglot migrate up" in one transaction, with search_path set to the store's schema. Once
-- released, this file never changes: its checksum is recorded, and an edited one is refused.
--
-- A record is kept byte for byte. Its frame is the columns format and checksum, its content is body.
-- Columns that are generated from key and body are for people and for indexes; the coordinators
-- read the frame only. Where a commit would wait for it (objects.id and owner, changes.at and actor), it
-- is the coordinators that take them from body.

-- Functions that the tables and views below use --------------------------------------------------

CREATE FUNCTION json_integer(value json, field text) RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN substring(value ->> field FROM '^-?[0-9]{1,18}$')::bigint;
COMMENT ON FUNCTION json_integer(json, text) IS 'The field as a number; null if it is none.';

CREATE FUNCTION instant(microseconds bigint) RETURNS timestamptz
    LANGUAGE sql STABLE PARALLEL SAFE STRICT
    RETURN timestamptz '1970-01-01 00:00:00+00' + microseconds * interval '1 microsecond';
COMMENT ON FUNCTION instant(bigint) IS 'The point in time that is so many microseconds after 1970 in UTC.';

CREATE FUNCTION sql_name(parts text[]) RETURNS text
    LANGUAGE sql STABLE PARALLEL SAFE STRICT
    RETURN (SELECT string_agg(quote_ident(part), '.' ORDER BY position)
              FROM unnest(parts) WITH ORDINALITY AS u (part, position));
COMMENT ON FUNCTION sql_name(text[]) IS 'The parts of a name as it is written in SQL.';

-- A record that cannot be kept in body: json refuses the escape of a NUL, which JSON itself allows.
-- So that nobody hides from the audit behind one, it is replaced by U+FFFD here. Null if it is damaged.
CREATE FUNCTION readable(raw bytea) RETURNS json
    LANGUAGE plpgsql IMMUTABLE STRICT
    SET search_path FROM CURRENT
    AS $$
DECLARE
    content text;
    text_of_object json;
BEGIN
    content := convert_from(substr(raw, 6), 'UTF8');
    text_of_object := regexp_replace(content, '(?<!\\)((?:\\\\)*)\\u0000', '\1\\ufffd', 'g')::json;
    -- Reads every escape, so that nothing fails later in the middle of a view.
    PERFORM text_of_object::jsonb;
    RETURN CASE WHEN json_typeof(text_of_object) = 'object' THEN text_of_object END;
EXCEPTION
    WHEN data_exception OR program_limit_exceeded THEN
        RETURN NULL;
END
$$;
COMMENT ON FUNCTION readable(bytea) IS 'The content of a record that is kept in raw; null if it is damaged.';

-- Tables ------------------------------------------------------------------------------------------

CREATE TABLE meta (
    key text COLLATE "C" PRIMARY KEY,
    value bytea NOT NULL
);
COMMENT ON TABLE meta IS 'Values that the store has once.';
COMMENT ON COLUMN meta.key IS 'store_id, which does not change once the store is in use, or value/ and the name of a value.';

CREATE TABLE heads (
    org text COLLATE "C" PRIMARY KEY,
    org_id bigint NOT NULL,
    seq bigint NOT NULL CHECK (seq >= 0),
    next_id bigint NOT NULL,
    at bigint NOT NULL,
    halted_at_seq bigint,
    fence bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);
COMMENT ON TABLE heads IS 'The databases (orgs), and the last transaction of each. Its row is what a commit locks.';
COMMENT ON COLUMN heads.org IS 'The name of the database, as clients connect to it.';
COMMENT ON COLUMN heads.org_id IS 'Its identity: one of the same name that is made later gets another one.';
COMMENT ON COLUMN heads.seq IS 'The number of its last transaction. They are numbered without a gap.';
COMMENT ON COLUMN heads.next_id IS 'The next object id.';
COMMENT ON COLUMN heads.at IS 'When its last transaction started, in microseconds since 1970, UTC.';
COMMENT ON COLUMN heads.fence IS 'Grows whenever somebody is told of a transaction that it was not committed: a commit that was sent before that does nothing.';
COMMENT ON COLUMN heads.halted_at_seq IS 'Set when this transaction had been seen and is not there any more: no coordinator writes until "dataglot accept-history" has been run.';

CREATE TABLE objects (
    org text COLLATE "C" NOT NULL,
    key text[] COLLATE "C" NOT NULL,
    format smallint NOT NULL,
    checksum bigint NOT NULL,
    body json,
    raw bytea,
    kind text COLLATE "C" GENERATED ALWAYS AS (key[1]) STORED,
    name text[] COLLATE "C" GENERATED ALWAYS AS (key[2:]) STORED,
    id bigint,
    owner text COLLATE "C",
    PRIMARY KEY (org, key),
    CHECK ((body IS NULL) <> (raw IS NULL))
);
CREATE INDEX objects_owner ON objects (org, owner);
CREATE INDEX objects_id ON objects (org, id);
COMMENT ON TABLE objects IS 'What every object has, of whatever kind: id, owner, comment, who made and changed it. See audit_objects.';
COMMENT ON COLUMN objects.key IS 'The kind of the object, then each part of its name.';
COMMENT ON COLUMN objects.format IS 'The format of the record.';
COMMENT ON COLUMN objects.checksum IS 'CRC-32 of table, key and content.';
COMMENT ON COLUMN objects.id IS 'The id in body, for searches.';
COMMENT ON COLUMN objects.owner IS 'The owner in body, for searches.';
COMMENT ON COLUMN objects.body IS 'The content, byte for byte.';
COMMENT ON COLUMN objects.raw IS 'The whole record where its content cannot be kept in body; as a rule it is damaged. See audit_unreadable.';

CREATE TABLE entries (
    org text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    format smallint NOT NULL,
    checksum bigint NOT NULL,
    body json,
    raw bytea,
    connector text COLLATE "C" GENERATED ALWAYS AS (body ->> 'connector') STORED,
    PRIMARY KEY (org, name),
    CHECK ((body IS NULL) <> (raw IS NULL))
);
COMMENT ON TABLE entries IS 'Catalogs: connector and options. See audit_catalogs.';

CREATE TABLE secrets (
    org text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    format smallint NOT NULL,
    checksum bigint NOT NULL,
    body bytea,
    raw bytea,
    hash bytea GENERATED ALWAYS AS (substr(body, 1, 32)) STORED,
    PRIMARY KEY (org, name),
    CHECK ((body IS NULL) <> (raw IS NULL))
);
-- A ciphertext does not get shorter by compression.
ALTER TABLE secrets ALTER COLUMN body SET STORAGE EXTERNAL;
COMMENT ON TABLE secrets IS 'Values of secrets, encrypted. See audit_secrets.';
COMMENT ON COLUMN secrets.body IS 'The SHA-256 of the ciphertext, then the ciphertext.';
COMMENT ON COLUMN secrets.hash IS 'The SHA-256 of the ciphertext.';

CREATE TABLE previous_secrets (
    org text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    format smallint NOT NULL,
    checksum bigint NOT NULL,
    body bytea,
    raw bytea,
    hash bytea GENERATED ALWAYS AS (substr(body, 1, 32)) STORED,
    PRIMARY KEY (org, name),
    CHECK ((body IS NULL) <> (raw IS NULL))
);
ALTER TABLE previous_secrets ALTER COLUMN body SET STORAGE EXTERNAL;
COMMENT ON TABLE previous_secrets IS 'Values that secrets had before, encrypted, kept for as long as ALTER SECRET ... GRACE says.';
COMMENT ON COLUMN previous_secrets.body IS 'The SHA-256 of the ciphertext, then the ciphertext.';
COMMENT ON COLUMN previous_secrets.hash IS 'The SHA-256 of the ciphertext.';

CREATE TABLE data_keys (
    org text COLLATE "C" NOT NULL,
    no text COLLATE "C" NOT NULL,
    format smallint NOT NULL,
    checksum bigint NOT NULL,
    body bytea,
    raw bytea,
    hash bytea GENERATED ALWAYS AS (substr(body, 1, 32)) STORED,
    PRIMARY KEY (org, no),
    CHECK ((body IS NULL) <> (raw IS NULL))
);
ALTER TABLE data_keys ALTER COLUMN body SET STORAGE EXTERNAL;
COMMENT ON TABLE data_keys IS 'The keys that values and verifiers are encrypted with, themselves encrypted. Without the row of its key a value is lost.';
COMMENT ON COLUMN data_keys.no IS 'The number of the key within its org, from 1.';
COMMENT ON COLUMN data_keys.body IS 'The SHA-256 of the ciphertext, then the ciphertext.';
COMMENT ON COLUMN data_keys.hash IS 'The SHA-256 of the ciphertext.';

CREATE TABLE users (
    org text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    format smallint NOT NULL,
    checksum bigint NOT NULL,
    body json,
    raw bytea,
    PRIMARY KEY (org, name),
    CHECK ((body IS NULL) <> (raw IS NULL))
);
COMMENT ON TABLE users IS 'Roles that may log in: attributes and password verifier. See audit_roles, which shows no verifier.';

CREATE TABLE roles (
    org text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    format smallint NOT NULL,
    checksum bigint NOT NULL,
    body json,
    raw bytea,
    PRIMARY KEY (org, name),
    CHECK ((body IS NULL) <> (raw IS NULL))
);
COMMENT ON TABLE roles IS 'Roles that may not log in: attributes. See audit_roles.';

CREATE TABLE role_members (
    org text COLLATE "C" NOT NULL,
    role text COLLATE "C" NOT NULL,
    member text COLLATE "C" NOT NULL,
    format smallint NOT NULL,
    checksum bigint NOT NULL,
    body json,
    raw bytea,
    PRIMARY KEY (org, role, member),
    CHECK ((body IS NULL) <> (raw IS NULL))
);
CREATE INDEX role_members_member ON role_members (org, member);
COMMENT ON TABLE role_members IS 'Who is a member of which role, by whose grant. See audit_memberships.';

CREATE TABLE policies (
    org text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    format smallint NOT NULL,
    checksum bigint NOT NULL,
    body json,
    raw bytea,
    PRIMARY KEY (org, name),
    CHECK ((body IS NULL) <> (raw IS NULL))
);
COMMENT ON TABLE policies IS 'Masks and row filters. See audit_policies.';

-- The last parts of a key: 'public' or 'role' and a name (no role is called public), then the grantor.
CREATE TABLE grants (
    org text COLLATE "C" NOT NULL,
    key text[] COLLATE "C" NOT NULL,
    format smallint NOT NULL,
    checksum bigint NOT NULL,
    body json,
    raw bytea,
    grantor text COLLATE "C" GENERATED ALWAYS AS (key[cardinality(key)]) STORED,
    grantee text COLLATE "C" GENERATED ALWAYS AS (NULLIF(key[cardinality(key) - 1], 'public')) STORED,
    target text[] COLLATE "C" GENERATED ALWAYS AS
        (key[:cardinality(key) - CASE WHEN key[cardinality(key) - 1] = 'public' THEN 2 ELSE 3 END]) STORED,
    PRIMARY KEY (org, key),
    CHECK ((body IS NULL) <> (raw IS NULL))
);
CREATE INDEX grants_grantee ON grants (org, grantee);
COMMENT ON TABLE grants IS 'Who has which privileges on what, by whose grant. See audit_grants.';
COMMENT ON COLUMN grants.key IS 'Target, grantee, grantor.';
COMMENT ON COLUMN grants.grantee IS 'The role that has them; null for PUBLIC.';

CREATE TABLE derived_products (
    org text COLLATE "C" NOT NULL,
    catalog text COLLATE "C" NOT NULL,
    schema text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    format smallint NOT NULL,
    checksum bigint NOT NULL,
    body json,
    raw bytea,
    PRIMARY KEY (org, catalog, schema, name),
    CHECK ((body IS NULL) <> (raw IS NULL))
);
COMMENT ON TABLE derived_products IS 'Views. See audit_views.';

CREATE TABLE changes (
    org text COLLATE "C" NOT NULL,
    seq bigint NOT NULL CHECK (seq >= 0),
    step integer NOT NULL CHECK (step >= 0),
    format smallint NOT NULL,
    checksum bigint NOT NULL,
    body json,
    raw bytea,
    transaction_id text COLLATE "C",
    at bigint,
    actor text COLLATE "C",
    PRIMARY KEY (org, seq, step),
    CHECK ((body IS NULL) <> (raw IS NULL))
);
CREATE INDEX changes_transaction ON changes (org, transaction_id) WHERE transaction_id IS NOT NULL;
COMMENT ON TABLE changes IS 'History: every committed transaction. Append-only. See audit_changes, audit_statements, audit_mutations.';
COMMENT ON COLUMN changes.seq IS 'The number of the transaction in its database.';
COMMENT ON COLUMN changes.step IS 'A large transaction is several rows, from 0.';
COMMENT ON COLUMN changes.transaction_id IS 'The id of the transaction, in its first row.';
COMMENT ON COLUMN changes.at IS 'When it started, in microseconds since 1970, UTC; in its first row.';
COMMENT ON COLUMN changes.actor IS 'Who did it; in its first row.';

-- Guards ------------------------------------------------------------------------------------------
-- They fire in every mode of session_replication_role. The owner of the tables can disable them;
-- "dataglot migrate check" finds that.

CREATE FUNCTION refuse() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path FROM CURRENT
    AS $$
BEGIN
    RAISE EXCEPTION '% on table % is not allowed: it is append-only', TG_OP, quote_ident(TG_TABLE_NAME)
        USING ERRCODE = 'integrity_constraint_violation';
END
$$;
COMMENT ON FUNCTION refuse() IS 'Keeps a table append-only.';

-- History goes with its database, and only with it: the head's row is deleted first.
CREATE FUNCTION refuse_delete_of_history() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path FROM CURRENT
    AS $$
BEGIN
    IF EXISTS (SELECT FROM heads WHERE org IN (SELECT DISTINCT gone.org FROM gone)) THEN
        RAISE EXCEPTION 'DELETE on table % is not allowed: it is append-only', quote_ident(TG_TABLE_NAME)
            USING ERRCODE = 'integrity_constraint_violation',
                  DETAIL = 'The history of a database is deleted with the database only.';
    END IF;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION refuse_delete_of_history() IS 'Keeps the history of a database for as long as there is one.';

-- An empty store may still become the copy of another one.
CREATE FUNCTION refuse_new_store_id() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path FROM CURRENT
    AS $$
BEGIN
    IF TG_OP = 'DELETE' OR NEW.key <> OLD.key OR EXISTS (SELECT FROM heads) THEN
        RAISE EXCEPTION 'the id of a store that is in use does not change'
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION refuse_new_store_id() IS 'Keeps the id of the store.';

CREATE TRIGGER append_only BEFORE UPDATE OR TRUNCATE ON changes
    FOR EACH STATEMENT EXECUTE FUNCTION refuse();
CREATE TRIGGER kept_with_its_org AFTER DELETE ON changes
    REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION refuse_delete_of_history();
ALTER TABLE changes ENABLE ALWAYS TRIGGER append_only;
ALTER TABLE changes ENABLE ALWAYS TRIGGER kept_with_its_org;

CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON migrations
    FOR EACH STATEMENT EXECUTE FUNCTION refuse();
ALTER TABLE migrations ENABLE ALWAYS TRIGGER append_only;

CREATE TRIGGER store_id_stays BEFORE UPDATE OR DELETE ON meta
    FOR EACH ROW WHEN (OLD.key = 'store_id') EXECUTE FUNCTION refuse_new_store_id();
ALTER TABLE meta ENABLE ALWAYS TRIGGER store_id_stays;

-- For auditors ------------------------------------------------------------------------------------
-- No verifier, no ciphertext, no value of a secret. Whoever may read a view needs no right on a table.

CREATE VIEW audit_objects AS
SELECT o.org, o.kind, sql_name(o.name) AS name, json_integer(b.body, 'id') AS object_id, b.body ->> 'owner' AS owner,
       b.body ->> 'comment' AS comment, json_integer(b.body, 'version') AS version,
       instant(json_integer(b.body -> 'created', 'at')) AS created_at, b.body -> 'created' ->> 'by' AS created_by,
       json_integer(b.body -> 'created', 'seq') AS created_seq,
       instant(json_integer(c.changed, 'at')) AS changed_at, c.changed ->> 'by' AS changed_by,
       json_integer(c.changed, 'seq') AS changed_seq, o.key
  FROM objects o
 CROSS JOIN LATERAL (SELECT coalesce(o.body, readable(o.raw)) AS body) b
 CROSS JOIN LATERAL (SELECT coalesce(b.body -> 'changed', b.body -> 'created') AS changed) c;
COMMENT ON VIEW audit_objects IS 'Every object: who owns it, who made it and who changed it last, when and in which transaction.';

CREATE VIEW audit_roles AS
SELECT r.org, r.name, r.can_login, coalesce(b.body ->> 'superuser' = 'true', false) AS superuser,
       coalesce(b.body ->> 'createrole' = 'true', false) AS create_role,
       coalesce(b.body ->> 'inherit' = 'true', true) AS inherit,
       coalesce(b.body ->> 'bypassrls' = 'true', false) AS bypass_row_filters,
       coalesce(json_integer(b.body, 'connection_limit'), -1) AS connection_limit,
       CASE b.body ->> 'valid_until' WHEN '9223372036854775807' THEN timestamptz 'infinity'
            ELSE instant(json_integer(b.body, 'valid_until')) END AS valid_until,
       b.body ->> 'verifier' IS NOT NULL AS has_password, b.body -> 'settings' AS settings,
       o.comment, o.created_at, o.created_by, o.changed_at, o.changed_by
  FROM (SELECT org, name, true AS can_login, body, raw FROM users
        UNION ALL
        SELECT org, name, false AS can_login, body, raw FROM roles) r
 CROSS JOIN LATERAL (SELECT coalesce(r.body, readable(r.raw)) AS body) b
  LEFT JOIN audit_objects o ON o.org = r.org AND o.key = ARRAY['role', r.name]
 WHERE b.body IS NOT NULL;
COMMENT ON VIEW audit_roles IS 'Roles and their attributes; whether there is a password, not which.';

CREATE VIEW audit_memberships AS
SELECT m.org, m.role, m.member, g.grantor, g.options ->> 'admin' = 'true' AS admin_option,
       g.options ->> 'inherit' = 'true' AS inherit_option, g.options ->> 'set' = 'true' AS set_option
  FROM role_members m
 CROSS JOIN LATERAL (SELECT coalesce(m.body, readable(m.raw)) -> 'by' AS by) b
 CROSS JOIN LATERAL json_each(CASE json_typeof(b.by) WHEN 'object' THEN b.by END) AS g (grantor, options);
COMMENT ON VIEW audit_memberships IS 'Who is a member of which role: one row a grantor.';

CREATE VIEW audit_grants AS
SELECT g.org, coalesce(g.grantee, 'PUBLIC') AS grantee, p.privilege, p.column_name,
       CASE g.target[1] WHEN 'object' THEN g.target[2] ELSE g.target[1] END AS target_kind,
       CASE g.target[1]
           WHEN 'object' THEN upper(replace(g.target[2], '_', ' ')) || ' ' || sql_name(g.target[3:])
           WHEN 'pattern' THEN upper(g.target[3] || ' ' || g.target[2] || ' IN ' || g.target[4]) || ' ' || sql_name(g.target[5:])
           ELSE upper(replace(g.target[1], '_', ' '))
       END AS target,
       p.grantable, g.grantor, g.grantee IS NULL AS is_public
  FROM grants g
 CROSS JOIN LATERAL (SELECT coalesce(g.body, readable(g.raw)) AS body) b
 CROSS JOIN LATERAL (
       SELECT word AS privilege, NULL::text AS column_name,
              coalesce(b.body -> 'grantable', '[]')::jsonb ? word AS grantable
         FROM json_array_elements_text(CASE json_typeof(b.body -> 'privileges') WHEN 'array' THEN b.body -> 'privileges' END) AS w (word)
       UNION ALL
       SELECT 'SELECT' AS privilege, name AS column_name, with_grant_option = 'true' AS grantable
         FROM json_each_text(CASE json_typeof(b.body -> 'columns') WHEN 'object' THEN b.body -> 'columns' END) AS c (name, with_grant_option)) p;
COMMENT ON VIEW audit_grants IS 'Who has which privilege on what, by whose grant: one row a privilege, or a column.';
COMMENT ON COLUMN audit_grants.column_name IS 'The one column that the privilege is for; null: for all of them.';
COMMENT ON COLUMN audit_grants.target IS 'As it stands after ON in GRANT.';

CREATE VIEW audit_catalogs AS
SELECT e.org, e.name, b.body ->> 'connector' AS connector, coalesce(b.body ->> 'enabled' = 'true', true) AS enabled,
       b.body -> 'options' AS options, o.owner, o.comment, o.created_at, o.created_by, o.changed_at, o.changed_by
  FROM entries e
 CROSS JOIN LATERAL (SELECT coalesce(e.body, readable(e.raw)) AS body) b
  LEFT JOIN audit_objects o ON o.org = e.org AND o.key = ARRAY['catalog', e.name]
 WHERE b.body IS NOT NULL;
COMMENT ON VIEW audit_catalogs IS 'Catalogs: what they connect to, and who owns them. A credential is the name of a secret.';

CREATE VIEW audit_secrets AS
SELECT h.org, sql_name(h.name) AS name, json_integer(b.body -> 'secret', 'value_version') AS value_version,
       CASE WHEN b.origin ->> 'env' IS NOT NULL THEN 'env'
            WHEN b.origin ->> 'file' IS NOT NULL THEN 'file'
            WHEN b.origin ->> 'sealed' IS NOT NULL THEN 'sealed' END AS origin,
       coalesce(b.origin ->> 'env', b.origin ->> 'file') AS origin_name,
       encode(s.hash, 'hex') AS hash, b.origin ->> 'sealed' AS recorded_hash,
       o.owner, o.comment, o.created_at, o.created_by, o.changed_at, o.changed_by
  FROM objects h
 CROSS JOIN LATERAL (SELECT c.body, c.body -> 'secret' -> 'origin' AS origin
                       FROM (SELECT coalesce(h.body, readable(h.raw)) AS body) c) b
  LEFT JOIN secrets s ON s.org = h.org AND s.name = h.name[1]
  LEFT JOIN audit_objects o ON o.org = h.org AND o.key = h.key
 WHERE h.kind = 'secret';
COMMENT ON VIEW audit_secrets IS 'Secrets: where each value is, and the SHA-256 of its ciphertext. No value.';
COMMENT ON COLUMN audit_secrets.hash IS 'The SHA-256 of the ciphertext that is stored.';
COMMENT ON COLUMN audit_secrets.recorded_hash IS 'The one that the object says it has: the same, or somebody has changed one of them by hand.';

CREATE VIEW audit_views AS
SELECT v.org, v.catalog, v.schema, v.name, b.body ->> 'sql' AS sql, coalesce(b.body ->> 'security', 'invoker') AS security,
       b.body -> 'columns' AS columns, b.body -> 'options' AS options,
       o.owner, o.comment, o.created_at, o.created_by, o.changed_at, o.changed_by
  FROM derived_products v
 CROSS JOIN LATERAL (SELECT coalesce(v.body, readable(v.raw)) AS body) b
  LEFT JOIN audit_objects o ON o.org = v.org AND o.key = ARRAY['view', v.catalog, v.schema, v.name]
 WHERE b.body IS NOT NULL;
COMMENT ON VIEW audit_views IS 'Views: their definition, and whose rights they use.';
COMMENT ON COLUMN audit_views.security IS 'invoker: the rights of whoever reads it; definer: those of its owner.';

CREATE VIEW audit_policies AS
SELECT p.org, p.name, b.body ->> 'kind' AS kind, t.kind AS target_kind,
       CASE json_typeof(t.parts)
           WHEN 'string' THEN quote_ident(b.body -> 'target' ->> t.kind)
           WHEN 'array' THEN sql_name(ARRAY(SELECT json_array_elements_text(t.parts)))
           ELSE t.parts::text
       END AS target,
       b.body -> 'function' AS function, b.body ->> 'when' AS when_condition, b.body ->> 'using' AS using_condition,
       b.body -> 'to' AS applies_to, b.body -> 'except' AS except_roles,
       b.body ->> 'others' AS others, coalesce(json_integer(b.body, 'priority'), 0) AS priority,
       coalesce(b.body ->> 'enabled' = 'true', true) AS enabled,
       o.owner, o.comment, o.created_at, o.created_by, o.changed_at, o.changed_by
  FROM policies p
 CROSS JOIN LATERAL (SELECT coalesce(p.body, readable(p.raw)) AS body) b
  LEFT JOIN LATERAL json_each(CASE json_typeof(b.body -> 'target') WHEN 'object' THEN b.body -> 'target' END) AS t (kind, parts) ON true
  LEFT JOIN audit_objects o ON o.org = p.org AND o.key = ARRAY[b.body ->> 'kind', p.name]
 WHERE b.body IS NOT NULL;
COMMENT ON VIEW audit_policies IS 'Masks and row filters: what they cover, for whom, and whether they are on.';

CREATE VIEW audit_changes AS
SELECT c.org, c.seq, instant(coalesce(c.at, json_integer(b.body, 'at'))) AS at, coalesce(c.actor, b.body ->> 'by') AS actor,
       b.body ->> 'session' AS session, coalesce(c.transaction_id, b.body ->> 'id') AS transaction_id,
       (SELECT count(*) FROM changes s WHERE s.org = c.org AND s.seq = c.seq) AS rows,
       b.body IS NOT NULL AS readable
  FROM changes c
 CROSS JOIN LATERAL (SELECT coalesce(c.body, readable(c.raw)) AS body) b
 WHERE c.step = 0;
COMMENT ON VIEW audit_changes IS 'Committed transactions: who, when, from where.';
COMMENT ON COLUMN audit_changes.rows IS 'How many rows of changes it is.';

-- Numbered in each transaction by itself, so that a search for a few does not read all of history.
CREATE VIEW audit_statements AS
SELECT c.org, c.seq, s.number AS statement, c.at, c.actor, c.session, s.sql
  FROM audit_changes c
 CROSS JOIN LATERAL (
       SELECT row_number() OVER (ORDER BY r.step, e.position) AS number, e.statement ->> 'sql' AS sql
         FROM changes r
        CROSS JOIN LATERAL (SELECT coalesce(r.body, readable(r.raw)) -> 'statements' AS list) b
        CROSS JOIN LATERAL json_array_elements(CASE json_typeof(b.list) WHEN 'array' THEN b.list END)
                   WITH ORDINALITY AS e (statement, position)
        WHERE r.org = c.org AND r.seq = c.seq AND e.statement ->> 'sql' IS NOT NULL) s;
COMMENT ON VIEW audit_statements IS 'Committed statements, in canonical SQL without any credential: who, when, from where.';

CREATE VIEW audit_mutations AS
SELECT c.org, c.seq, m.number AS mutation, c.at, c.actor,
       CASE WHEN m.mutation ->> 'put' IS NULL THEN 'delete' ELSE 'put' END AS action,
       coalesce(m.mutation ->> 'put', m.mutation ->> 'delete') AS table_name,
       ARRAY(SELECT json_array_elements_text(CASE json_typeof(m.mutation -> 'key') WHEN 'array' THEN m.mutation -> 'key' END)) AS key,
       m.mutation -> 'value' AS value, m.mutation ->> 'hash' AS hash
  FROM audit_changes c
 CROSS JOIN LATERAL (
       SELECT row_number() OVER (ORDER BY r.step, s.position, e.position) AS number, e.mutation
         FROM changes r
        CROSS JOIN LATERAL (SELECT coalesce(r.body, readable(r.raw)) -> 'statements' AS list) b
        CROSS JOIN LATERAL json_array_elements(CASE json_typeof(b.list) WHEN 'array' THEN b.list END)
                   WITH ORDINALITY AS s (statement, position)
        CROSS JOIN LATERAL json_array_elements(CASE json_typeof(s.statement -> 'mutations') WHEN 'array' THEN s.statement -> 'mutations' END)
                   WITH ORDINALITY AS e (mutation, position)
        WHERE r.org = c.org AND r.seq = c.seq) m;
COMMENT ON VIEW audit_mutations IS 'What each transaction did to which record. Of a password there is whether it was set, of a secret or a data key the hash.';

CREATE VIEW audit_unreadable AS
SELECT u.org, u.table_name, u.key, octet_length(u.raw) AS bytes, readable(u.raw) IS NULL AS damaged
  FROM (SELECT org, 'objects' AS table_name, key, raw FROM objects WHERE raw IS NOT NULL
        UNION ALL SELECT org, 'entries' AS table_name, ARRAY[name] AS key, raw FROM entries WHERE raw IS NOT NULL
        UNION ALL SELECT org, 'secrets' AS table_name, ARRAY[name] AS key, raw FROM secrets WHERE raw IS NOT NULL
        UNION ALL SELECT org, 'users' AS table_name, ARRAY[name] AS key, raw FROM users WHERE raw IS NOT NULL
        UNION ALL SELECT org, 'roles' AS table_name, ARRAY[name] AS key, raw FROM roles WHERE raw IS NOT NULL
        UNION ALL SELECT org, 'role_members' AS table_name, ARRAY[role, member] AS key, raw FROM role_members WHERE raw IS NOT NULL
        UNION ALL SELECT org, 'policies' AS table_name, ARRAY[name] AS key, raw FROM policies WHERE raw IS NOT NULL
        UNION ALL SELECT org, 'grants' AS table_name, key, raw FROM grants WHERE raw IS NOT NULL
        UNION ALL SELECT org, 'derived_products' AS table_name, ARRAY[catalog, schema, name] AS key, raw FROM derived_products WHERE raw IS NOT NULL
        UNION ALL SELECT org, 'previous_secrets' AS table_name, ARRAY[name] AS key, raw FROM previous_secrets WHERE raw IS NOT NULL
        UNION ALL SELECT org, 'data_keys' AS table_name, ARRAY[no] AS key, raw FROM data_keys WHERE raw IS NOT NULL
        UNION ALL SELECT org, 'changes' AS table_name, ARRAY[seq::text, step::text] AS key, raw FROM changes WHERE raw IS NOT NULL) u;
COMMENT ON VIEW audit_unreadable IS 'Records that could not be kept as JSON. A damaged one is missing from the other views.';
