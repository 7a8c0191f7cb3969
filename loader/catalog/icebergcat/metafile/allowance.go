// Package metafile reads the files of Iceberg metadata within a memory limit, and
// writes metadata.json. It unpacks metadata.json, and it rewrites manifests and
// manifest lists into Avro files that iceberg-go can read: unpacked, and with
// schemas and values as iceberg-go expects them. Memory is charged before it is
// allocated, whatever a file claims to contain.
package metafile

import (
	"bytes"
	"time"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
)

// Bytes charged to the memory budget while a metadata file is read. Measured on
// metadata of 10,000 snapshots, on manifests of 30,000 entries with and without
// statistics, and on files built to cost as much as possible for their length:
// record 0018.
const (
	perByte   = 3       // of metadata.json, unpacked: its text, a copy by field, a copy of that
	perObject = 256     // of metadata.json: what a "{" may begin, at most a statistics file
	perValue  = 100     // of metadata.json: what follows a ",", at most an entry of a map
	perRecord = 1 << 10 // of a manifest or manifest list, for everything but maps and lists

	// PerPlain is charged for each byte of records whose maps and lists are not
	// read, PerBounds for each byte of records whose value ranges are read.
	PerPlain  = 1
	PerBounds = 6
)

// retryAfter is when memory may be available again.
const retryAfter = 5 * time.Second

// Subject names a metadata file in errors.
type Subject struct {
	What     string // "metadata", "manifest" or "manifest list"
	Table    string
	Location string
}

// Allowance limits the memory used to read one metadata file.
type Allowance struct {
	Subject
	Max  int64               // bytes of the file, both stored and unpacked
	Held *budget.Reservation // charged before memory is allocated
}

// Corrupt returns the failure of a metadata file that contradicts itself, its table or
// the specification.
func Corrupt(table, file, format string, args ...any) *fault.Error {
	return fault.New(fault.Corrupt, format, args...).In(table, file)
}

// Fits returns an error if n bytes of the file, in the form that is named, are too many.
func (a Allowance) Fits(n int64, form string) error {
	if n <= a.Max {
		return nil
	}
	return a.exhausted("%s of table %s has %d bytes %s, more than max_metadata allows, which is %d", a.What, a.Table, n, form, a.Max)
}

// overflows returns the failure of a file that unpacks to more than Max bytes.
func (a Allowance) overflows() error {
	return a.exhausted("%s of table %s unpacks to more than max_metadata allows, which is %d bytes", a.What, a.Table, a.Max)
}

func (a Allowance) exhausted(format string, args ...any) error {
	return fault.New(fault.Exhausted, format, args...).In(a.Table, a.Location).
		WithRemedy("expire snapshots or rewrite manifests so that the file becomes smaller, or raise the server's max_metadata")
}

// Charge adds n bytes to the file's reservation.
func (a Allowance) Charge(n int64) error {
	err := a.Held.Grow(n)
	if err == nil {
		return nil
	}
	e := fault.New(fault.Exhausted, "%s of table %s needs %d bytes of memory while it is read, %d more than it has: %s",
		a.What, a.Table, a.Held.Held()+n, n, fault.As(err).Message).In(a.Table, a.Location).
		WithRemedy("try again when other streams have ended, raise the server's memory budget, or expire snapshots and rewrite manifests")
	e.RetryAfter = retryAfter
	return e
}

// ChargeParsing charges the memory for parsing metadata.json or another JSON text. It
// depends less on the length of the text than on the number of objects and values.
func (a Allowance) ChargeParsing(text []byte) error {
	objects, values := int64(bytes.Count(text, []byte("{"))), int64(bytes.Count(text, []byte(",")))
	return a.Charge(perByte*int64(len(text)) + perObject*objects + perValue*values)
}
