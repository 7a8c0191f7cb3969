package ui

import (
	"context"
	"encoding/json"

	"github.com/penstock/penstock/flight"
)

// unresolved is a replica whose address is not known.
type unresolved struct{ err error }

// Status implements Watched.
func (u unresolved) Status(context.Context) (out flight.ServerStatus, sent json.RawMessage, err error) {
	return out, nil, u.err
}

// CacheList implements Watched.
func (u unresolved) CacheList(context.Context) (out flight.CacheList, err error) { return out, u.err }
