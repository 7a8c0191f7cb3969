package icebergcat

import (
	"bytes"
	"math"
	"time"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
)

// What is charged of the memory budget while a file of metadata is read, in
// bytes. Measured on metadata of 10,000 snapshots, on manifests of 30,000
// entries with and without statistics, and on files that were made to cost as
// much as they can for their length: record 0018.
const (
	perByte   = 3       // of metadata.json, unpacked: its text, a copy by field, a copy of that
	perObject = 256     // of metadata.json: what a "{" may begin, at the most a statistics file
	perValue  = 100     // of metadata.json: what follows a ",", at the most an entry of a map
	perRecord = 1 << 10 // of a manifest or a manifest list, for all but maps and lists
	perPlain  = 1       // of a byte of their records, where neither is read
	perBounds = 6       // of a byte of their records, where value ranges are read
	perFile   = 800     // of a file that is listed
	perColumn = 180     // of a column whose value range it has
)

// retryAfter is when memory that others hold may be free again.
const retryAfter = 5 * time.Second

// subject is a file of metadata, as errors name it.
type subject struct {
	what     string // "metadata", "manifest" or "manifest list"
	table    string
	location string
}

// allowance is how much memory the reading of one file of metadata may take.
type allowance struct {
	subject
	most int64               // bytes of the file, as stored and unpacked
	held *budget.Reservation // charged before memory is allocated
}

// hold makes a reservation for what is read of a table. The caller releases it.
func (c *Catalog) hold(table string) *budget.Reservation {
	held, _ := c.options.Budget.Reserve("the metadata of table "+table, 0) // nothing always fits
	return held
}

// allow makes the allowance of a file, which lasts until held is released.
func (c *Catalog) allow(s subject, held *budget.Reservation) allowance {
	most := c.options.MaxMetadata
	if most <= 0 {
		most = math.MaxInt64
	}
	return allowance{subject: s, most: most, held: held}
}

// fits is an error if a file of so many bytes, stored or unpacked, is too large.
func (a allowance) fits(n int64, form string) error {
	if n <= a.most {
		return nil
	}
	return a.exhausted("%s of table %s has %d bytes %s, more than max_metadata allows, which is %d", a.what, a.table, n, form, a.most)
}

// overflows is the failure of a file that goes on where it may not any more.
func (a allowance) overflows() error {
	return a.exhausted("%s of table %s unpacks to more than max_metadata allows, which is %d bytes", a.what, a.table, a.most)
}

func (a allowance) exhausted(format string, args ...any) error {
	return fault.New(fault.Exhausted, format, args...).In(a.table, a.location).
		WithRemedy("expire snapshots or rewrite manifests so that the file becomes smaller, or raise the server's max_metadata")
}

// charge adds n bytes to what the file holds.
func (a allowance) charge(n int64) error {
	err := a.held.Grow(n)
	if err == nil {
		return nil
	}
	e := fault.New(fault.Exhausted, "%s of table %s needs %d bytes of memory while it is read, %d more than it has: %s",
		a.what, a.table, a.held.Held()+n, n, fault.As(err).Message).In(a.table, a.location).
		WithRemedy("try again when other streams have ended, raise the server's memory budget, or expire snapshots and rewrite manifests")
	e.RetryAfter = retryAfter
	return e
}

// parsing charges what metadata.json costs while it is parsed. What it becomes
// depends less on its length than on how many objects and values it has.
func (a allowance) parsing(text []byte) error {
	objects, values := int64(bytes.Count(text, []byte("{"))), int64(bytes.Count(text, []byte(",")))
	return a.charge(perByte*int64(len(text)) + perObject*objects + perValue*values)
}
