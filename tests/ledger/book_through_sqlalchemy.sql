BEGIN TRANSACTION;
CREATE TABLE tacit_accounts (
	id BIGINT NOT NULL, 
	parent BIGINT, 
	spec TEXT NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "tacit_accounts" VALUES(2,NULL,'{"adjacency":"add-remove","budget":{"amounts":{"pure":"1"},"currency":"pure","reserve":"0"},"cache":false,"collusion":true,"growing":false,"name":"visits","null_record":false,"parent":null,"rule":"sum","unit":"row","window":null}');
INSERT INTO "tacit_accounts" VALUES(9,2,'{"adjacency":"add-remove","budget":{"amounts":{"pure":"1/5"},"currency":"pure","reserve":"0"},"cache":false,"collusion":true,"growing":false,"name":"north","null_record":false,"parent":2,"rule":"sum","unit":"row","window":null}');
CREATE TABLE tacit_entries (
	seq INTEGER NOT NULL, 
	kind VARCHAR(12) NOT NULL, 
	account BIGINT, 
	reservation BIGINT, 
	question VARCHAR(64), 
	body TEXT NOT NULL, 
	hash VARCHAR(64) NOT NULL, 
	PRIMARY KEY (seq), 
	UNIQUE (reservation)
);
INSERT INTO "tacit_entries" VALUES(1,'genesis',NULL,NULL,NULL,'{"format":1,"kind":"genesis","previous":"0000000000000000000000000000000000000000000000000000000000000000","secret":"e9b882ec85e304d658e427dc0e2313a88d756ec21b46689c0502a0c69d68f448","seq":1,"time":"2026-11-16T06:35:31.606+00:00"}','15cb7d98df475dcedbfd2bc4cab347cc878b6d0a749590103e4b4e92928a938e');
INSERT INTO "tacit_entries" VALUES(2,'account',2,NULL,NULL,'{"account":2,"kind":"account","previous":"15cb7d98df475dcedbfd2bc4cab347cc878b6d0a749590103e4b4e92928a938e","seq":2,"terms":{"adjacency":"add-remove","budget":{"amounts":{"pure":"1"},"currency":"pure","reserve":"0"},"cache":false,"collusion":true,"growing":false,"name":"visits","null_record":false,"parent":null,"rule":"sum","unit":"row","window":null},"time":"2026-11-16T06:35:31.657+00:00"}','14da8d70a1ff330b9f22901bac38213871b296918fdaadc247d60cefeacc6e27');
INSERT INTO "tacit_entries" VALUES(3,'identity',2,NULL,NULL,'{"account":2,"key":"3fc736158f757fa4464003d2a0389f15dec2ab042d29ba01deac32cb57e74ae0","kind":"identity","previous":"14da8d70a1ff330b9f22901bac38213871b296918fdaadc247d60cefeacc6e27","seq":3,"time":"2026-11-16T06:35:31.659+00:00"}','a014b74d4886d77d7c1397c41eead84b638a9b337cf14584a96dcc025abddb0f');
INSERT INTO "tacit_entries" VALUES(4,'spend',2,NULL,NULL,'{"account":2,"analyst":"ann","charge":{"pure":"1/4","rho":"1/32"},"event":{"adjacency":"add-remove","epsilon":"1/4","type":"PureDP"},"kind":"spend","previous":"a014b74d4886d77d7c1397c41eead84b638a9b337cf14584a96dcc025abddb0f","private":true,"purpose":"weekly table","seq":4,"time":"2026-11-16T06:35:31.672+00:00"}','0a5330f388cd2ba0df473354f100bb4b8235231efb648492ca017881077b36e3');
INSERT INTO "tacit_entries" VALUES(5,'reserve',2,NULL,NULL,'{"account":2,"charge":{"pure":"1/8","rho":"1/128"},"event":{"adjacency":"add-remove","epsilon":"1/8","type":"PureDP"},"kind":"reserve","previous":"0a5330f388cd2ba0df473354f100bb4b8235231efb648492ca017881077b36e3","private":true,"seq":5,"time":"2026-11-16T06:35:31.685+00:00"}','489e8989b04eb33f7a21166719171f21474123f77700900d06f23d4ea88ad788');
INSERT INTO "tacit_entries" VALUES(6,'commit',2,5,NULL,'{"account":2,"kind":"commit","previous":"489e8989b04eb33f7a21166719171f21474123f77700900d06f23d4ea88ad788","private":true,"reservation":5,"seq":6,"status":"done","time":"2026-11-16T06:35:31.693+00:00"}','466c027b253767b1858fbb3c01a7e6d659563671fd4a34db068f822f2236653c');
INSERT INTO "tacit_entries" VALUES(7,'reserve',2,NULL,NULL,'{"account":2,"charge":{"pure":"1/8","rho":"1/128"},"event":{"adjacency":"add-remove","epsilon":"1/8","type":"PureDP"},"kind":"reserve","previous":"466c027b253767b1858fbb3c01a7e6d659563671fd4a34db068f822f2236653c","private":true,"seq":7,"time":"2026-11-16T06:35:31.694+00:00"}','c1af240de39b55acbe49968a6b48c14b206fdce43c8b41d911cf413490b91665');
INSERT INTO "tacit_entries" VALUES(8,'alias',2,NULL,NULL,'{"account":2,"kind":"alias","name":"copy","previous":"c1af240de39b55acbe49968a6b48c14b206fdce43c8b41d911cf413490b91665","seq":8,"time":"2026-11-16T06:35:31.721+00:00"}','797abe6f7a91b26883905d73ea289c0dd64de9abfb8d6ef04baa70cd8f3632f1');
INSERT INTO "tacit_entries" VALUES(9,'account',9,NULL,NULL,'{"account":9,"kind":"account","previous":"797abe6f7a91b26883905d73ea289c0dd64de9abfb8d6ef04baa70cd8f3632f1","seq":9,"terms":{"adjacency":"add-remove","budget":{"amounts":{"pure":"1/5"},"currency":"pure","reserve":"0"},"cache":false,"collusion":true,"growing":false,"name":"north","null_record":false,"parent":2,"rule":"sum","unit":"row","window":null},"time":"2026-11-16T06:35:31.735+00:00"}','685f6b25cef41ab0bf31cbf5ad8cbfe913c76435cec1dafda4e512142b131192');
INSERT INTO "tacit_entries" VALUES(10,'spend',9,NULL,NULL,'{"account":9,"charge":{"pure":"1/10","rho":"1/200"},"event":{"adjacency":"add-remove","epsilon":"1/10","type":"PureDP"},"kind":"spend","previous":"685f6b25cef41ab0bf31cbf5ad8cbfe913c76435cec1dafda4e512142b131192","private":true,"seq":10,"time":"2026-11-16T06:35:31.753+00:00"}','5a1ea42d34231ba7b5b7c8a1f2aa6586ab412a05d74d65ee47ae80b1b39d09ac');
CREATE TABLE tacit_facts (
	name VARCHAR(40) NOT NULL, 
	value TEXT NOT NULL, 
	PRIMARY KEY (name)
);
INSERT INTO "tacit_facts" VALUES('format','1');
INSERT INTO "tacit_facts" VALUES('secret','e4bab38cf57c5c3d428ddf6e2215b20d4e96a9b1423a2a8be96d37252c56e24c');
CREATE TABLE tacit_head (
	id INTEGER NOT NULL, 
	seq BIGINT NOT NULL, 
	hash VARCHAR(64) NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "tacit_head" VALUES(1,10,'5a1ea42d34231ba7b5b7c8a1f2aa6586ab412a05d74d65ee47ae80b1b39d09ac');
CREATE TABLE tacit_identities (
	"key" VARCHAR(64) NOT NULL, 
	account BIGINT NOT NULL, 
	PRIMARY KEY ("key")
);
INSERT INTO "tacit_identities" VALUES('3fc736158f757fa4464003d2a0389f15dec2ab042d29ba01deac32cb57e74ae0',2);
CREATE TABLE tacit_names (
	name VARCHAR(200) NOT NULL, 
	account BIGINT NOT NULL, 
	PRIMARY KEY (name)
);
INSERT INTO "tacit_names" VALUES('visits',2);
INSERT INTO "tacit_names" VALUES('copy',2);
INSERT INTO "tacit_names" VALUES('north',9);
CREATE TABLE tacit_totals (
	account BIGINT NOT NULL, 
	period VARCHAR(12) NOT NULL, 
	body TEXT NOT NULL, 
	PRIMARY KEY (account, period)
);
INSERT INTO "tacit_totals" VALUES(2,'','{"direct":{"pure":"1/2","rho":"3/64"},"total":{"pure":"3/5","rho":"83/1600"}}');
INSERT INTO "tacit_totals" VALUES(9,'','{"total":{"pure":"1/10","rho":"1/200"}}');
CREATE INDEX ix_tacit_entries_account ON tacit_entries (account);
CREATE INDEX ix_tacit_entries_question ON tacit_entries (question);
CREATE TRIGGER tacit_no_update BEFORE UPDATE ON tacit_entries BEGIN SELECT RAISE(ABORT, 'entries of the ledger are never changed'); END;
CREATE TRIGGER tacit_no_delete BEFORE DELETE ON tacit_entries BEGIN SELECT RAISE(ABORT, 'entries of the ledger are never changed'); END;
COMMIT;