-- What a schema ($1) consists of: one row an object, as text that can be compared. "of" is the
-- relation that it belongs to, which takes it along. Read with search_path set to that schema.
WITH relation AS (
    SELECT c.oid, c.relname::text AS name, c.relkind, c.reltype, c.relowner,
           CASE c.relkind WHEN 'r' THEN 'table' WHEN 'p' THEN 'table' WHEN 'v' THEN 'view' WHEN 'm' THEN 'materialized view'
                          WHEN 'S' THEN 'sequence' WHEN 'f' THEN 'foreign table' WHEN 'c' THEN 'type' END AS kind
      FROM pg_class c
      JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE n.nspname = $1 AND c.relkind IN ('r', 'p', 'v', 'm', 'S', 'f', 'c')
)
-- Relations, with what changes how they are kept or who sees which rows.
SELECT r.kind || ' ' || r.name AS object, NULL::text AS of,
       concat_ws(', ', CASE c.relpersistence WHEN 'u' THEN 'unlogged' END,
                 CASE WHEN c.relkind = 'p' THEN 'partitioned' END,
                 CASE WHEN c.relrowsecurity THEN 'row level security' END,
                 CASE WHEN c.relforcerowsecurity THEN 'forced row level security' END,
                 (SELECT 'inherits from ' || string_agg(i.inhparent::regclass::text, ', ' ORDER BY i.inhseqno)
                    FROM pg_inherits i WHERE i.inhrelid = c.oid),
                 (SELECT 'options ' || string_agg(o, ', ' ORDER BY o) FROM unnest(c.reloptions) o),
                 CASE WHEN c.relkind IN ('v', 'm') THEN 'as' || chr(10) || pg_get_viewdef(c.oid) END) AS definition
  FROM relation r
  JOIN pg_class c ON c.oid = r.oid
UNION ALL
SELECT 'column ' || r.name || '.' || a.attname, r.kind || ' ' || r.name,
       concat_ws(' ', format_type(a.atttypid, a.atttypmod),
                 (SELECT 'collate ' || quote_ident(l.collname) FROM pg_collation l
                   WHERE l.oid = a.attcollation AND l.collname <> 'default'),
                 CASE WHEN a.attnotnull THEN 'not null' END,
                 CASE a.attgenerated WHEN '' THEN 'default ' ELSE 'generated ' END || pg_get_expr(d.adbin, d.adrelid),
                 CASE WHEN a.attidentity <> '' THEN 'identity ' || a.attidentity::text END,
                 CASE WHEN a.attstorage <> t.typstorage THEN 'storage ' || a.attstorage::text END)
  FROM relation r
  JOIN pg_attribute a ON a.attrelid = r.oid AND a.attnum > 0 AND NOT a.attisdropped
  JOIN pg_type t ON t.oid = a.atttypid
  LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
 WHERE r.kind <> 'sequence'
UNION ALL
-- Those of a constraint are its own.
SELECT 'index ' || i.relname, r.kind || ' ' || r.name,
       pg_get_indexdef(x.indexrelid) || CASE WHEN x.indisvalid AND x.indisready THEN '' ELSE ', invalid' END
  FROM relation r
  JOIN pg_index x ON x.indrelid = r.oid
  JOIN pg_class i ON i.oid = x.indexrelid
 WHERE NOT EXISTS (SELECT FROM pg_constraint k WHERE k.conindid = x.indexrelid AND k.conrelid = x.indrelid)
UNION ALL
-- NOT NULL is the column's, though later servers keep a constraint for it.
SELECT 'constraint ' || k.conname || ' on ' || r.name, r.kind || ' ' || r.name, pg_get_constraintdef(k.oid)
  FROM relation r
  JOIN pg_constraint k ON k.conrelid = r.oid
 WHERE k.contype <> 'n'
UNION ALL
SELECT 'trigger ' || g.tgname || ' on ' || r.name, r.kind || ' ' || r.name,
       pg_get_triggerdef(g.oid) || CASE g.tgenabled WHEN 'O' THEN '' WHEN 'A' THEN ', always' WHEN 'D' THEN ', disabled'
                                                    ELSE ', on replicas only' END
  FROM relation r
  JOIN pg_trigger g ON g.tgrelid = r.oid
 WHERE NOT g.tgisinternal
UNION ALL
SELECT 'rule ' || w.rulename || ' on ' || r.name, r.kind || ' ' || r.name, pg_get_ruledef(w.oid)
  FROM relation r
  JOIN pg_rewrite w ON w.ev_class = r.oid
 WHERE w.rulename <> '_RETURN'
UNION ALL
SELECT 'policy ' || p.polname || ' on ' || r.name, r.kind || ' ' || r.name,
       concat_ws(', ', p.polcmd::text, pg_get_expr(p.polqual, p.polrelid), pg_get_expr(p.polwithcheck, p.polrelid))
  FROM relation r
  JOIN pg_policy p ON p.polrelid = r.oid
UNION ALL
SELECT 'function ' || f.proname || '(' || pg_get_function_identity_arguments(f.oid) || ')', NULL,
       CASE WHEN f.prokind IN ('f', 'p') THEN pg_get_functiondef(f.oid) ELSE f.prokind::text END
  FROM pg_proc f
  JOIN pg_namespace n ON n.oid = f.pronamespace
 WHERE n.nspname = $1
UNION ALL
-- Not the row types of relations, nor the array types of types.
SELECT 'type ' || t.typname, NULL, t.typtype::text
  FROM pg_type t
  JOIN pg_namespace n ON n.oid = t.typnamespace
 WHERE n.nspname = $1 AND t.typrelid = 0 AND NOT EXISTS (SELECT FROM pg_type e WHERE e.typarray = t.oid)
