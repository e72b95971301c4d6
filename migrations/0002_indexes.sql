-- Indexes beside the primary keys.
--
-- While the server knows little of a table, an index that starts with the org does for it as well as the
-- primary key, and a row that is looked up by its key is then searched for among all of the org's. So each
-- of the others holds the whole key, or is one that such a search cannot use: a partial one.

DROP INDEX objects_owner;
CREATE INDEX objects_owner ON objects (org, owner) WHERE owner IS NOT NULL;

DROP INDEX role_members_member;
CREATE INDEX role_members_member ON role_members (org, member, role);

DROP INDEX grants_grantee;
CREATE INDEX grants_grantee ON grants (org, grantee) WHERE grantee IS NOT NULL;

-- Nothing is searched for by its id: history names objects by their keys. Every commit paid for it.
DROP INDEX objects_id;
