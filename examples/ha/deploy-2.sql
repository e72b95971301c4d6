-- The second deployment, after one coordinator and PostgreSQL were killed: it builds on the first.
\set ON_ERROR_STOP on

BEGIN;

ALTER SECRET sales_password AS 'rotated';
CREATE ROW FILTER open_orders ON sales.public.orders
  USING (status <> 'draft') TO analyst ELSE ALL ROWS;
GRANT SELECT ON VIEW revenue TO analyst;
CREATE USER stefan IN ROLE steward;

COMMIT;
