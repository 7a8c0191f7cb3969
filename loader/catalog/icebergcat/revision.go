package icebergcat

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	icetable "github.com/apache/iceberg-go/table"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog/icebergcat/metafile"
)

// revision is what a commit changes in the metadata of a table: one branch, and perhaps a new
// snapshot and its schemas, or these alone.
type revision struct {
	branch   string          // "": none is changed, and main must be at from, unless that is 0
	from, to int64           // snapshots; 0: the branch does not exist
	snapshot *newSnapshot    // to, if it is new
	schema   *schemaRevision // nil keeps the current one
}

// newSnapshot is a snapshot as metadata has it.
type newSnapshot struct {
	ID       int64             `json:"snapshot-id"`
	Parent   *int64            `json:"parent-snapshot-id,omitempty"`
	Sequence int64             `json:"sequence-number,omitempty"`
	Time     int64             `json:"timestamp-ms"`
	Summary  map[string]string `json:"summary"`
	List     string            `json:"manifest-list"`
	Schema   int               `json:"schema-id"`
	FirstRow *int64            `json:"first-row-id,omitempty"`
	Rows     *int64            `json:"added-rows,omitempty"`
}

// schemaRevision is a schema to add to the table, to make current, or both.
type schemaRevision struct {
	id         int
	lastColumn int
	text       json.RawMessage // nil: the table has it
	current    bool
}

// number encodes a number.
func number(n int64) json.RawMessage { return strconv.AppendInt(nil, n, 10) }

// appended returns a list with another value; a missing list is empty.
func appended(list, value json.RawMessage) (json.RawMessage, error) {
	var values []json.RawMessage
	if list != nil {
		if err := json.Unmarshal(list, &values); err != nil {
			return nil, err
		}
	}
	values = append(values, value)
	return append(append([]byte{'['}, bytes.Join(rawTexts(values), []byte{','})...), ']'), nil
}

// revised returns the text of a table's metadata with a revision. As in tagged, everything
// else stays as it was written.
func (m *loaded) revised(r revision, now time.Time) ([]byte, error) {
	object, err := members(m.text)
	if err != nil {
		return nil, err
	}
	updated := max(now.UnixMilli(), m.LastUpdatedMillis())
	if r.schema != nil {
		if object, err = r.schema.addTo(object, m); err != nil {
			return nil, err
		}
	}
	if r.snapshot != nil {
		updated = max(updated, r.snapshot.Time)
		if object, err = r.snapshot.addTo(object, m); err != nil {
			return nil, err
		}
	}
	if r.branch == icetable.MainBranch && r.to == 0 {
		object = set(object, "current-snapshot-id", noCurrent(m.Version()))
	}
	if r.branch == icetable.MainBranch && r.to != 0 {
		moved := updated
		if r.snapshot != nil {
			moved = r.snapshot.Time
		}
		log, err := appended(find(object, "snapshot-log"), fmt.Appendf(nil, `{"timestamp-ms":%d,"snapshot-id":%d}`, moved, r.to))
		if err != nil {
			return nil, err
		}
		object = set(set(object, "current-snapshot-id", number(r.to)), "snapshot-log", log)
	}
	if r.branch != "" {
		refs, err := m.withBranch(find(object, "refs"), r)
		if err != nil {
			return nil, err
		}
		object = set(object, "refs", refs)
	}
	log, err := m.withLog(find(object, "metadata-log"))
	if err != nil {
		return nil, err
	}
	log, err = m.cut(log)
	if err != nil {
		return nil, err
	}
	return written(set(set(object, "last-updated-ms", number(updated)), "metadata-log", log))
}

// noCurrent is the current snapshot of a table whose main has none, as other writers have it in a format version.
func noCurrent(version int) json.RawMessage {
	if version >= lineageVersion {
		return json.RawMessage("null")
	}
	return number(-1)
}

// addTo adds the snapshot to metadata.
func (s *newSnapshot) addTo(object []member, m *loaded) ([]member, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	snapshots, err := appended(find(object, "snapshots"), text)
	if err != nil {
		return nil, err
	}
	object = set(object, "snapshots", snapshots)
	if m.Version() > 1 {
		object = set(object, "last-sequence-number", number(s.Sequence))
	}
	if s.Rows != nil {
		object = set(object, "next-row-id", number(m.NextRowID()+*s.Rows))
	}
	return object, nil
}

// addTo adds the schema to metadata, makes it current, or both. In format version 1, the
// current schema is also written by itself.
func (s *schemaRevision) addTo(object []member, m *loaded) ([]member, error) {
	if find(object, "schemas") == nil {
		return nil, errors.New("it has no list of schemas")
	}
	text := s.text
	if text != nil {
		schemas, err := appended(find(object, "schemas"), text)
		if err != nil {
			return nil, err
		}
		object = set(object, "schemas", schemas)
	} else {
		var err error
		if text, err = m.schemaText(s.id); err != nil {
			return nil, err
		}
	}
	if s.current {
		object = set(object, "current-schema-id", number(int64(s.id)))
		if m.Version() == 1 && find(object, "schema") != nil {
			object = set(object, "schema", text)
		}
	}
	return set(object, "last-column-id", number(int64(s.lastColumn))), nil
}

// withBranch returns a table's refs with the branch at its new snapshot, or without it.
func (m *loaded) withBranch(text json.RawMessage, r revision) (json.RawMessage, error) {
	refs, err := m.refs(text)
	if err != nil {
		return nil, err
	}
	if r.to == 0 {
		return written(slices.DeleteFunc(refs, func(one member) bool { return one.name == r.branch }))
	}
	object := []member{}
	if old := find(refs, r.branch); old != nil {
		object, err = members(old)
	}
	if err != nil {
		return nil, err
	}
	ref, err := written(set(set(object, "snapshot-id", number(r.to)), "type", json.RawMessage(`"branch"`)))
	if err != nil {
		return nil, err
	}
	return written(set(refs, r.branch, ref))
}

// The table properties that bound the log of metadata files.
const (
	previousProperty   = "write.metadata.previous-versions-max"
	removeProperty     = "write.metadata.delete-after-commit.enabled"
	defaultPreviousMax = 100
)

// cut drops the oldest entries of a metadata log, as the table's properties have it. Where the
// files of dropped entries are to be removed, nothing is dropped: the next writer does both.
func (m *loaded) cut(log json.RawMessage) (json.RawMessage, error) {
	most := defaultPreviousMax
	if n, err := strconv.Atoi(m.Properties()[previousProperty]); err == nil && n > 0 {
		most = n
	}
	var entries []json.RawMessage
	if err := json.Unmarshal(log, &entries); err != nil {
		return nil, err
	}
	if m.Properties()[removeProperty] == "true" || len(entries) <= most {
		return log, nil
	}
	entries = entries[len(entries)-most:]
	return append(append([]byte{'['}, bytes.Join(rawTexts(entries), []byte{','})...), ']'), nil
}

// revisedFile returns the new metadata file of a revision, after checking that it can be
// parsed and has what it should.
func (m *loaded) revisedFile(r revision, location string, now time.Time) ([]byte, error) {
	if err := m.file.Charge(rewriteCopies * int64(len(m.text))); err != nil {
		return nil, err
	}
	text, err := m.revised(r, now)
	if err != nil {
		return nil, metafile.Corrupt(m.name, m.file.Location, "metadata of table %s cannot be changed: %w", m.name, err)
	}
	read, err := m.with(text)
	if err != nil {
		return nil, err
	}
	if err := m.onlyDiffers(read, r); err != nil {
		return nil, fault.New(fault.Internal, "the new metadata of table %s is wrong: %w", m.name, err).In(m.name, location)
	}
	return metafile.Pack(location, text)
}

// onlyDiffers returns an error if new metadata differs from the old one in more or less than
// a revision.
func (m *loaded) onlyDiffers(read *loaded, r revision) error {
	snapshots, schemas := len(m.Snapshots()), len(m.Schemas())
	if r.snapshot != nil {
		snapshots++
	}
	current := m.CurrentSchema().ID
	if r.schema != nil && r.schema.text != nil {
		schemas++
	}
	if r.schema != nil && r.schema.current {
		current = r.schema.id
	}
	refs := map[string]int64{}
	for name, ref := range read.Refs() {
		refs[name] = ref.SnapshotID
	}
	for name, ref := range m.Refs() {
		if name != r.branch && refs[name] != ref.SnapshotID {
			return fmt.Errorf("its ref %s was changed", name)
		}
	}
	head := refs[r.branch]
	if r.branch == "" {
		head = r.to
	}
	switch {
	case read.TableUUID() != m.TableUUID() || read.Version() != m.Version() || read.Location() != m.Location():
		return errors.New("it is of another table")
	case len(read.Snapshots()) != snapshots || len(read.Schemas()) != schemas:
		return errors.New("its snapshots or schemas are not those that it should have")
	case read.CurrentSchema().ID != current:
		return fmt.Errorf("its current schema is %d", read.CurrentSchema().ID)
	case !read.sameUnknownRefs(m):
		return errors.New("its refs of unknown kinds were changed")
	case head != r.to:
		return fmt.Errorf("its branch %s is at %d", r.branch, head)
	case r.to != 0 && read.SnapshotByID(r.to) == nil:
		return fmt.Errorf("it has no snapshot %d", r.to)
	}
	return nil
}
