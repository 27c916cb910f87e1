-- The tables of version 3 that version 2 did not have, as SQLite makes them. They do not change any more: what comes
-- later is another version. The table round is made under another name, and takes the old one's place when it is filled.

CREATE TABLE campaign (
    id TEXT NOT NULL,
    name TEXT NOT NULL,
    made_at TEXT NOT NULL,
    rules TEXT,
    minor_units BIGINT NOT NULL,
    currency TEXT NOT NULL,
    PRIMARY KEY (id),
    CONSTRAINT campaign_minor_units CHECK (minor_units > 0),
    UNIQUE (name)
);

CREATE TABLE journal (
    number INTEGER NOT NULL,
    at TEXT NOT NULL,
    kind TEXT NOT NULL,
    subject TEXT NOT NULL,
    content TEXT NOT NULL,
    chain TEXT NOT NULL,
    PRIMARY KEY (number)
);

CREATE TABLE ledger (
    id TEXT NOT NULL,
    "key" BLOB NOT NULL,
    made_at TEXT NOT NULL,
    revision BIGINT NOT NULL,
    log_head TEXT,
    journal_end TEXT,
    PRIMARY KEY (id)
);

CREATE TABLE release (
    id TEXT NOT NULL,
    kind TEXT NOT NULL,
    state TEXT NOT NULL,
    delta DOUBLE DEFAULT 0 NOT NULL,
    debited_at TEXT NOT NULL,
    marked_at TEXT,
    ended_at TEXT,
    model TEXT,
    PRIMARY KEY (id),
    CONSTRAINT release_kind CHECK (kind IN ('model', 'statistic')),
    CONSTRAINT release_state CHECK (state IN ('debited', 'marked', 'released', 'lost', 'returned')),
    CONSTRAINT release_delta CHECK (delta >= 0 AND delta < 1),
    CONSTRAINT release_model CHECK ((model IS NOT NULL) = (state = 'released')),
    CONSTRAINT release_mark CHECK (state NOT IN ('marked') OR marked_at IS NOT NULL)
);

CREATE TABLE account (
    id TEXT NOT NULL,
    campaign TEXT NOT NULL,
    kind TEXT NOT NULL,
    credits BIGINT DEFAULT 0 NOT NULL,
    debits BIGINT DEFAULT 0 NOT NULL,
    pending BIGINT DEFAULT 0 NOT NULL,
    PRIMARY KEY (id),
    CONSTRAINT account_once UNIQUE (campaign, kind),
    CONSTRAINT account_kind CHECK (kind IN ('outside', 'escrow', 'payable')),
    CONSTRAINT account_signs CHECK (credits >= 0 AND debits >= 0 AND pending >= 0),
    CONSTRAINT account_not_negative CHECK (kind = 'outside' OR credits - debits - pending >= 0),
    FOREIGN KEY(campaign) REFERENCES campaign (id)
);

CREATE TABLE payout (
    id TEXT NOT NULL,
    number INTEGER NOT NULL,
    campaign TEXT NOT NULL,
    lines BIGINT NOT NULL,
    amount BIGINT NOT NULL,
    made_at TEXT NOT NULL,
    PRIMARY KEY (id),
    CONSTRAINT payout_once UNIQUE (campaign, number),
    CONSTRAINT payout_amount CHECK (lines > 0 AND amount > 0),
    FOREIGN KEY(campaign) REFERENCES campaign (id)
);

CREATE TABLE new_round (
    number INTEGER NOT NULL,
    identity TEXT NOT NULL,
    digest TEXT NOT NULL,
    repetition INTEGER NOT NULL,
    campaign TEXT NOT NULL,
    quoted_at TEXT NOT NULL,
    mechanism TEXT NOT NULL,
    sellers BIGINT NOT NULL,
    promised DOUBLE NOT NULL,
    delta DOUBLE DEFAULT 0 NOT NULL,
    payments BIGINT NOT NULL,
    minor_units BIGINT NOT NULL,
    ceiling DOUBLE,
    parameters TEXT NOT NULL,
    "plan" TEXT,
    header TEXT,
    PRIMARY KEY (number),
    CONSTRAINT round_once UNIQUE (digest, repetition),
    CONSTRAINT round_sellers CHECK (sellers > 0),
    CONSTRAINT round_promised CHECK (promised >= 0),
    CONSTRAINT round_delta CHECK (delta >= 0 AND delta < 1),
    CONSTRAINT round_payments CHECK (payments >= 0),
    CONSTRAINT round_minor_units CHECK (minor_units > 0),
    UNIQUE (identity),
    FOREIGN KEY(campaign) REFERENCES campaign (id)
);

CREATE TABLE debit (
    release TEXT NOT NULL,
    round INTEGER NOT NULL,
    counts INTEGER NOT NULL,
    PRIMARY KEY (release, round),
    CONSTRAINT debit_counts CHECK (counts IN (0, 1)),
    FOREIGN KEY(release) REFERENCES release (id),
    FOREIGN KEY(round) REFERENCES round (number)
);

CREATE UNIQUE INDEX one_debit_per_round ON debit (round) WHERE counts = 1;

CREATE TABLE left_out (
    round INTEGER NOT NULL,
    number INTEGER NOT NULL,
    content BLOB NOT NULL,
    digest TEXT NOT NULL,
    PRIMARY KEY (round, number),
    FOREIGN KEY(round) REFERENCES round (number)
);

CREATE TABLE payout_page (
    payout TEXT NOT NULL,
    entry INTEGER NOT NULL,
    number INTEGER NOT NULL,
    kind TEXT NOT NULL,
    content BLOB NOT NULL,
    digest TEXT NOT NULL,
    PRIMARY KEY (payout, entry, number),
    CONSTRAINT payout_page_kind CHECK (kind IN ('lines', 'confirmed', 'returned')),
    FOREIGN KEY(payout) REFERENCES payout (id)
);

CREATE TABLE transfer (
    id TEXT NOT NULL,
    kind TEXT NOT NULL,
    debit_account TEXT NOT NULL,
    credit_account TEXT NOT NULL,
    amount BIGINT NOT NULL,
    round INTEGER,
    payout TEXT,
    person TEXT,
    participation TEXT,
    state TEXT NOT NULL,
    made_at TEXT NOT NULL,
    ended_at TEXT,
    PRIMARY KEY (id),
    CONSTRAINT transfer_once UNIQUE (participation, kind),
    CONSTRAINT transfer_kind CHECK (kind IN ('fund', 'pay', 'refund', 'payout', 'returned')),
    CONSTRAINT transfer_state CHECK (state IN ('pending', 'posted', 'voided')),
    CONSTRAINT transfer_amount CHECK (amount > 0),
    CONSTRAINT transfer_accounts CHECK (debit_account <> credit_account),
    CONSTRAINT transfer_ended CHECK ((ended_at IS NULL) = (state = 'pending')),
    FOREIGN KEY(debit_account) REFERENCES account (id),
    FOREIGN KEY(credit_account) REFERENCES account (id),
    FOREIGN KEY(round) REFERENCES round (number),
    FOREIGN KEY(payout) REFERENCES payout (id)
);

CREATE UNIQUE INDEX one_payment_per_round ON transfer (round) WHERE kind = 'pay' AND state <> 'voided' AND participation IS NULL;

