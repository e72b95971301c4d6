-- The first deployment: sources, roles, rights and policies, in one transaction.
\set ON_ERROR_STOP on

BEGIN;

CREATE SECRET sales_password AS 'change-me';
CREATE CATALOG sales USING postgres
  WITH (host = 'sales-db.internal', port = 5432, database = 'sales', "user" = 'reader', password = SECRET sales_password);

CREATE ROLE analyst;
CREATE ROLE steward;
CREATE USER ana PASSWORD 'change-me-too' IN ROLE analyst;
GRANT USAGE ON CATALOG sales TO analyst, steward;
GRANT SELECT ON ALL TABLES IN SCHEMA sales.public TO analyst, steward;

CREATE MASK customer_email ON sales.public.customers (email)
  WITH (type = 'show_last', keep = 4) EXCEPT steward;
CREATE VIEW revenue (day, amount)
  AS SELECT o.day, sum(o.amount) FROM sales.public.orders AS o GROUP BY o.day;

COMMIT;
