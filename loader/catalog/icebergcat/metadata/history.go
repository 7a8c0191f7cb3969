package metadata

import (
	"context"
	"encoding/json"
	"math"
	"strconv"
	"time"

	icetable "github.com/apache/iceberg-go/table"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/catalog/history"
)

// The memory of a snapshot and of an entry of its summary in a history, in bytes, excluding their
// strings.
const (
	snapshotBytes = 256
	summaryBytes  = 64
)

// History returns what the current metadata of a table says about its snapshots. The memory of the result is charged to held.
func (s *Source) History(ctx context.Context, name string, held *budget.Reservation) (*history.Table, error) {
	reading := s.Hold(name)
	defer reading.Release()
	m, err := s.Load(ctx, name, reading)
	if err != nil {
		return nil, err
	}
	return m.History(name, held)
}

// History returns what the metadata of a table with the given name says about its snapshots. The
// memory of the result is charged to held.
func (m *Loaded) History(name string, held *budget.Reservation) (*history.Table, error) {
	out := &history.Table{Name: name, Refs: map[string]history.Ref{}}
	all := m.Snapshots() // each call copies all of them
	for i := range all {
		one := historyOf(&all[i])
		if err := held.Grow(sizeOf(one)); err != nil {
			return nil, err
		}
		out.Snapshots = append(out.Snapshots, one)
	}
	for name, ref := range m.Refs() {
		if err := held.Grow(int64(len(name)) + snapshotBytes); err != nil {
			return nil, err
		}
		one := history.Ref{Snapshot: ref.SnapshotID, Tag: ref.SnapshotRefType == icetable.TagRef}
		if of := m.SnapshotByID(ref.SnapshotID); of != nil && name != icetable.MainBranch {
			if ends := m.RefEnds(ref, of); ends.UnixMilli() != math.MaxInt64 {
				one.Until = ends.UTC()
			}
		}
		out.Refs[name] = one
	}
	if current := m.CurrentSnapshot(); current != nil {
		out.Refs[icetable.MainBranch] = history.Ref{Snapshot: current.SnapshotID}
	}
	for entry := range m.SnapshotLogs() {
		out.Moves, out.Moved = append(out.Moves, entry.SnapshotID), time.UnixMilli(entry.TimestampMs).UTC()
	}
	m.describe(out)
	out.Statistics = m.KeptStatistics()
	return out, held.Grow(int64(len(out.Statistics)*summaryBytes) + int64(len(out.Moves)*8) + int64(len(out.Columns)+len(out.Partition)+len(out.Key))*summaryBytes) //nolint:mnd // bytes of an id
}

// KeptStatistics returns the statistics of snapshots that Penstock kept, according to the properties of their blobs.
func (m *Loaded) KeptStatistics() (out []catalog.KeptStatistics) {
	for f := range m.Statistics() {
		for _, b := range f.BlobMetadata {
			if b.Properties[commit.BlobCreatedBy] != commit.CreatedByUs {
				continue
			}
			one := catalog.KeptStatistics{Snapshot: f.SnapshotID}
			if n, err := strconv.ParseInt(b.Properties[commit.BlobRows], 10, 64); err == nil {
				one.Rows = &n
			}
			if at, err := time.Parse(time.RFC3339, b.Properties[commit.BlobTime]); err == nil {
				one.Time = at
			}
			out = append(out, one)
			break
		}
	}
	return out
}

// describe adds the columns and the partition fields of the table's current schema and spec.
func (m *Loaded) describe(out *history.Table) {
	schema := m.CurrentSchema()
	for _, f := range schema.Fields() {
		out.Columns = append(out.Columns, history.Column{Name: f.Name, Doc: f.Doc})
	}
	if json.Unmarshal([]byte(m.Properties()[commit.PropertyKey]), &out.Key) != nil {
		out.Key = nil // another program wrote the property
	}
	spec := m.PartitionSpec()
	for _, f := range spec.Fields() {
		if _, ok := ConvertTransform(f); !ok {
			continue
		}
		column, ok := schema.FindColumnName(f.SourceID())
		if !ok {
			column = f.Name
		}
		text := column
		if transform := f.Transform.String(); transform != "identity" {
			text = transform + "(" + column + ")"
		}
		out.Partition = append(out.Partition, text)
	}
}

// historyOf converts a snapshot of the metadata. The result shares the summary with it.
func historyOf(s *icetable.Snapshot) history.Snapshot {
	out := history.Snapshot{ID: s.SnapshotID, Time: time.UnixMilli(s.TimestampMs)}
	if s.ParentSnapshotID != nil {
		out.Parent = *s.ParentSnapshotID
	}
	if s.Summary != nil {
		out.Operation, out.Summary = string(s.Summary.Operation), s.Summary.Properties
	}
	return out
}

// sizeOf returns the approximate memory of a snapshot in bytes.
func sizeOf(s history.Snapshot) int64 {
	bytes := int64(snapshotBytes)
	for name, value := range s.Summary {
		bytes += summaryBytes + int64(len(name)+len(value))
	}
	return bytes
}

// propertyMaxRefAge is the table property with the maximum age of refs that have none of their own.
const propertyMaxRefAge = "history.expire.max-ref-age-ms"

// RefEnds returns the time when a tag, or a branch other than main, expires. If it never expires,
// this is the largest time in milliseconds.
func (m *Loaded) RefEnds(ref icetable.SnapshotRef, of *icetable.Snapshot) time.Time {
	age := int64(math.MaxInt64)
	if n, err := strconv.ParseInt(m.Properties()[propertyMaxRefAge], 10, 64); err == nil {
		age = n
	}
	if ref.MaxRefAgeMs != nil {
		age = *ref.MaxRefAgeMs
	}
	if age > math.MaxInt64-of.TimestampMs {
		age = math.MaxInt64 - of.TimestampMs
	}
	return time.UnixMilli(of.TimestampMs + age)
}
