package sqlcat

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog/locator"
)

// Limits of the connections to a server. A few suffice: planning makes one short query for each
// table.
const (
	maxConnections  = 4
	keptConnections = 1
	keptFor         = time.Minute
)

// Conditions of PostgreSQL's manual, "Error Codes".
const (
	undefinedTable        = "42P01"
	undefinedDatabase     = "3D000"
	insufficientPrivilege = "42501"
	classAuthorization    = "28"
)

// postgres is a catalog in a database of PostgreSQL.
type postgres struct {
	name    string // the catalog's
	where   string // host, port and database, for errors
	timeout time.Duration
	db      *sql.DB
}

// openPostgres parses a URI. It does not connect.
func openPostgres(o Options) (*postgres, dialect, error) {
	_, rest, ok := strings.Cut(o.URI, "://")
	uri, err := url.Parse("postgresql://" + rest)
	if !ok || err != nil {
		return nil, dialect{}, unreadable()
	}
	config, err := pgx.ParseConfig(uri.String())
	if err != nil {
		return nil, dialect{}, unreadable()
	}
	// A question takes one round trip and leaves no state on the connection, because a connection
	// pooler may send the next question to another server.
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	config.ConnectTimeout = o.Timeout
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = "penstock"
	}
	p := &postgres{name: o.Name, timeout: o.Timeout, db: stdlib.OpenDB(*config)}
	shown := url.URL{Scheme: "postgresql", Host: uri.Host, Path: uri.Path}
	p.where = shown.String()
	p.db.SetMaxOpenConns(maxConnections)
	p.db.SetMaxIdleConns(keptConnections)
	p.db.SetConnMaxIdleTime(keptFor)
	return p, dialect{
		subject: p.where, mark: func(n int) string { return "$" + strconv.Itoa(n) },
		restore: "restore the catalog's tables: the next query reads what is there then",
	}, nil
}

// unreadable returns the error for a URI that cannot be parsed. It does not contain the parser's
// message, which may show a part of the password.
func unreadable() error {
	return fault.InvalidField("uri", "it is not the URI of a PostgreSQL database").
		WithRemedy("write it as SQLAlchemy has it, with special characters of the password escaped (@ as %%40)")
}

// ask runs a question on a free or new connection. A connection that the server has dropped
// is not used again. Each statement is a transaction.
func (p *postgres) ask(ctx context.Context, _ purpose, q question) (string, error) {
	given := ctx
	if p.timeout > 0 {
		var cancel context.CancelFunc
		given, cancel = context.WithTimeout(ctx, p.timeout)
		defer cancel()
	}
	found, err := q(given, p.db)
	switch {
	case err == nil:
		return found, nil
	case ctx.Err() != nil:
		return "", fault.Op(context.Cause(ctx), "read catalog %s", p.name)
	case given.Err() != nil:
		return "", fault.New(fault.Unavailable, "catalog %s: %s did not answer within %s", p.name, p.where, p.timeout).In("", p.where).
			WithRemedy("check whether the database responds; if it is only slow, raise storage_timeout")
	}
	return "", err
}

// Classes of error codes after which the statement was rolled back and may be retried.
const (
	classConnection = "08"
	classRollback   = "40"
	classResources  = "53"
	classOperator   = "57"
)

// outcome returns the outcome of a failed statement. If the server returned an error, the statement
// had no effect; after a broken connection, the outcome is unknown.
func (p *postgres) outcome(err error) (locator.Outcome, error) {
	broken := p.broken(err)
	state := sqlState(err)
	if len(state) < len(classRollback) {
		return locator.Unknown, broken
	}
	switch state[:len(classRollback)] {
	case classConnection, classRollback, classResources, classOperator:
		return locator.Unknown, broken
	}
	return locator.Refused, fault.As(broken).WithRemedy("GRANT UPDATE ON iceberg_tables (and INSERT for new tables) to the user of the catalog's uri, or leave pin_tags and writes out")
}

func (p *postgres) undefined(err error) bool { return sqlState(err) == undefinedTable }

// broken classifies a failure.
func (p *postgres) broken(err error) error {
	var known *fault.Error
	switch {
	case errors.As(err, &known), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fault.Op(err, "read catalog %s", p.name)
	}
	e := fault.New(fault.Unavailable, "catalog %s: %w", p.name, err).In("", p.where)
	switch state := sqlState(err); {
	case state == undefinedDatabase:
		return e.WithRemedy("correct the database of its uri; Penstock opens existing catalogs and does not create any")
	case state == insufficientPrivilege:
		return e.WithRemedy("GRANT SELECT ON iceberg_tables to the user of its uri")
	case strings.HasPrefix(state, classAuthorization):
		return e.WithRemedy("correct user and password of its uri, and check that the server allows this user to connect from here")
	}
	return e.WithRemedy("check that the server of its uri responds")
}

// sqlState returns the server's error code, or "".
func sqlState(err error) string {
	var e *pgconn.PgError
	if !errors.As(err, &e) {
		return ""
	}
	return e.Code
}

// Close closes connections.
func (p *postgres) Close() { _ = p.db.Close() }
