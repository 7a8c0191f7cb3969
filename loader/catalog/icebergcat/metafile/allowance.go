// Package metafile reads the files of Iceberg metadata within a memory limit, and writes
// metadata.json. It unpacks metadata.json, and it rewrites manifests and manifest lists into Avro
// files that iceberg-go can read: the blocks are unpacked, and the schemas and values are changed
// to what iceberg-go expects. Memory is always charged before it is allocated, so that a file
// cannot cause large allocations by claiming to contain much.
package metafile

import (
	"bytes"
	"time"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
)

// Numbers of bytes that are charged to the memory budget while a metadata file is read. They were
// measured with metadata of 10,000 snapshots, with manifests of 30,000 entries with and without
// statistics, and with files that were built to need as much memory as possible for their length
// (see record 0018).
const (
	perByte   = 3       // for each byte of unpacked metadata.json: the text, a copy of each field, and a copy of that
	perObject = 256     // for each "{" in metadata.json: the largest object that it may begin is a statistics file
	perValue  = 100     // for each "," in metadata.json: the largest value that may follow is an entry of a map
	perRecord = 1 << 10 // for each record of a manifest or manifest list, without its maps and lists

	// PerPlain is charged for each byte of records if their maps and lists are not read. PerBounds
	// is charged for each byte of records if their value ranges are read.
	PerPlain  = 1
	PerBounds = 6
)

// retryAfter is the time after which memory may be available again.
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

// Corrupt returns the error for a metadata file that contradicts itself, its table or the
// specification.
func Corrupt(table, file, format string, args ...any) *fault.Error {
	return fault.New(fault.Corrupt, format, args...).In(table, file)
}

// Fits returns an error if n is larger than Max. The parameter form says in the error what n bytes
// are, such as "as stored".
func (a Allowance) Fits(n int64, form string) error {
	if n <= a.Max {
		return nil
	}
	return a.exhausted("%s of table %s has %d bytes %s, more than max_metadata allows, which is %d", a.What, a.Table, n, form, a.Max)
}

// overflows returns the error for a file that unpacks to more than Max bytes.
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

// ChargeParsing charges the memory for parsing metadata.json or another JSON text. This memory
// depends more on the number of objects and values than on the length of the text.
func (a Allowance) ChargeParsing(text []byte) error {
	objects, values := int64(bytes.Count(text, []byte("{"))), int64(bytes.Count(text, []byte(",")))
	return a.Charge(perByte*int64(len(text)) + perObject*objects + perValue*values)
}
