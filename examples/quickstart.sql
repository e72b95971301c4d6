-- A control plane in one script: two sources, three roles, masks, a row filter and a view.
-- Run it with psql against a server started by `cargo run --release -- dev`:
--   psql 'host=127.0.0.1 port=7432 user=admin dbname=default' -f examples/quickstart.sql

BEGIN;

-- Credentials first: a catalog refers to them and never holds one itself.
CREATE SECRET sales_password AS 'change-me' COMMENT 'rotated by the platform team';
CREATE SECRET lake_token AS ENV 'LAKE_TOKEN';

-- Two sources.
CREATE CATALOG sales USING postgres
  WITH (host = 'sales-db.internal', port = 5432, database = 'sales', "user" = 'reader', password = SECRET sales_password, pool = 8)
  COMMENT 'orders and customers';
CREATE CATALOG lake USING warehouse
  WITH (uri = 'https://lake.internal/catalog', token = SECRET lake_token, warehouse = 'events');

-- Three roles, and people in them.
CREATE ROLE analyst COMMENT 'reads reports, never personal data';
CREATE ROLE steward COMMENT 'sees personal data';
CREATE ROLE finance;
CREATE USER ana PASSWORD 'change-me-too' VALID UNTIL '2035-01-01' CONNECTION LIMIT 5 IN ROLE analyst;
CREATE USER stefan IN ROLE steward;
GRANT analyst TO finance;

-- Who may use what.
GRANT USAGE ON CATALOG sales TO analyst, steward;
GRANT SELECT ON ALL TABLES IN SCHEMA sales.public TO analyst, steward;
GRANT USAGE ON CATALOG lake TO PUBLIC;
GRANT SELECT (day, amount) ON sales.public.orders TO finance WITH GRANT OPTION;

-- What they do not see.
CREATE MASK customer_email ON sales.public.customers (email)
  WITH (type = 'show_last', keep = 4) EXCEPT steward COMMENT 'only stewards see addresses';
CREATE MASK customer_birthday ON COLUMN sales.public.customers.birthday
  WITH (type = 'date_year') TO analyst PRIORITY 10;
CREATE ROW FILTER open_orders ON sales.public.orders
  USING (status <> 'draft') TO analyst ELSE ALL ROWS COMMENT 'drafts are for finance';

-- A derived product.
CREATE VIEW revenue (day, amount)
  COMMENT 'revenue by day'
  AS SELECT o.day, sum(o.amount) FROM sales.public.orders AS o GROUP BY o.day;
GRANT SELECT ON VIEW revenue TO analyst;

COMMENT ON SCHEMA sales.public IS 'the operational tables';
COMMENT ON COLUMN sales.public.customers.email IS 'masked for all but stewards';

COMMIT;

-- Everything is there, also after kill -9.
SHOW CATALOGS;
SHOW SECRETS;
SHOW ROLES;
SHOW POLICIES ON sales.public.customers;
SHOW VIEWS;
SHOW GRANTS TO analyst;
SHOW CREATE CATALOG sales;
SHOW CREATE MASK customer_email;
SHOW CREATE ROW FILTER open_orders;
SHOW CREATE VIEW revenue;
SHOW DEPENDENCIES ON CATALOG sales;
SHOW CHANGES SINCE 0;
