package commits

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/apache/iceberg-go"
	icetable "github.com/apache/iceberg-go/table"
	"github.com/google/uuid"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/catalog/icebergcat/manifests"
	"github.com/penstock/penstock/loader/catalog/icebergcat/metadata"
	"github.com/penstock/penstock/loader/catalog/icebergcat/revision"
)

// preparing has the state of one attempt of a commit, while its files are written.
type preparing struct {
	*committing
	meta    *metadata.Loaded
	head    *icetable.Snapshot
	attempt *attempt
	schema  *iceberg.Schema // with the columns that the change adds
	specs   map[int]iceberg.PartitionSpec
	new     manifests.NewSnapshot
	files   int // number of manifests that were written
	counts  snapshotCounts
}

// prepare checks the change against the table, writes the files of a new snapshot, and returns the
// revision of the metadata.
func (p *committing) prepare(ctx context.Context, meta *metadata.Loaded, head *icetable.Snapshot, a *attempt) (r revision.Revision, err error) {
	if err := meta.Servable(); err != nil {
		return r, err
	}
	s := &preparing{committing: p, meta: meta, head: head, attempt: a, specs: map[int]iceberg.PartitionSpec{}}
	for _, spec := range meta.PartitionSpecs() {
		s.specs[spec.ID()] = spec
	}
	if err := meta.Changeable(); err != nil {
		return revision.Revision{}, err
	}
	r = revision.Revision{Branch: p.change.Branch, From: a.parent, To: p.id}
	if s.schema, r.Schema, err = revision.AddColumns(meta, p.change.Columns); err != nil {
		return r, err
	}
	if err := s.checkFields(); err != nil {
		return r, err
	}
	s.new = manifests.NewSnapshot{Version: meta.Version(), ID: p.id, Sequence: meta.LastSequenceNumber() + 1}
	if head != nil {
		s.new.Parent = &head.SnapshotID
	}
	if s.new.Version >= metadata.LineageVersion {
		s.new.FirstRow = meta.NextRowID()
	}
	files, err := s.add(ctx)
	if err != nil {
		return r, err
	}
	deletes, err := s.addDeletes(ctx)
	if err != nil {
		return r, err
	}
	older, err := s.remove(ctx)
	if err != nil {
		return r, err
	}
	r.Snapshot, err = s.list(ctx, slices.Concat(files, deletes, older))
	return r, err
}

// checkFields returns Conflict if a file has statistics of a column that no schema of the table
// has. The column may be in a schema that will become current later. It returns Invalid if a file
// has a sequence number that the table has not used yet.
func (s *preparing) checkFields() error {
	schemas := append(slices.Clone(s.meta.Schemas()), s.schema)
	for _, f := range s.change.Add {
		for id := range f.Values {
			if !slices.ContainsFunc(schemas, func(of *iceberg.Schema) bool { _, known := of.FindFieldByID(id); return known }) {
				return fault.New(fault.Conflict, "file %s has a column with field id %d, which table %s does not have", f.Location, id, s.table).
					In(s.table, f.Location).WithRemedy("write the files again with the table's current columns")
			}
		}
		if f.Sequence > s.meta.LastSequenceNumber() {
			return fault.InvalidField("add", "file %s has sequence number %d, but the last one of table %s is %d", f.Location, f.Sequence, s.table, s.meta.LastSequenceNumber()).
				In(s.table, f.Location)
		}
	}
	return nil
}

// add writes the manifests of the added data files, one for each partition spec.
func (s *preparing) add(ctx context.Context) ([]iceberg.ManifestFile, error) {
	bySpec := map[int][]iceberg.ManifestEntry{}
	for _, f := range s.change.Add {
		if _, ok := s.specs[f.Spec]; !ok {
			return nil, fault.New(fault.Conflict, "file %s has partition spec %d, which table %s does not have", f.Location, f.Spec, s.table).In(s.table, f.Location).
				WithRemedy("write the files again with the table's current spec")
		}
		if err := s.meta.May("file", f.Location); err != nil {
			return nil, err
		}
		if err := s.meta.File.Charge(perAdded + perMetric*int64(len(f.ColumnBytes)+len(f.Values)+len(f.Nulls)+len(f.NaNs)+len(f.Lower)+len(f.Upper))); err != nil {
			return nil, err
		}
		form, err := s.form(f.Spec)
		if err != nil {
			return nil, err
		}
		data, err := form.Data(f, s.new.Version)
		if err != nil {
			return nil, fault.InvalidField("add", "file %s of table %s: %s", f.Location, s.table, err).In(s.table, f.Location)
		}
		bySpec[f.Spec] = append(bySpec[f.Spec], s.new.WithAge(data, f.Sequence, f.Snapshot))
		s.counts.add(f)
	}
	var out []iceberg.ManifestFile
	for _, id := range slices.Sorted(maps.Keys(bySpec)) {
		form, err := s.form(id)
		if err != nil {
			return nil, err
		}
		file, err := s.manifest(ctx, form, bySpec[id])
		if err != nil {
			return nil, err
		}
		out = append(out, file)
	}
	return out, nil
}

// Numbers of bytes that are charged for an added file, including two copies of its encoded entry,
// and for each of its statistics.
const (
	perAdded  = 2 << 10
	perMetric = 96
)

// manifest writes a manifest, and returns its entry for the manifest list.
func (s *preparing) manifest(ctx context.Context, form manifests.ManifestForm, entries []iceberg.ManifestEntry) (iceberg.ManifestFile, error) {
	location := fmt.Sprintf("%s/%s-%s-m%d.avro", metadataFolder(s.meta), s.prefix, uuid.NewString(), s.files)
	s.files++
	content, file, err := s.new.Encode(location, form, entries)
	if err != nil {
		return nil, fault.New(fault.Invalid, "a manifest of table %s cannot be written: %w", s.table, err).In(s.table, location)
	}
	if err := s.meta.File.Charge(int64(len(content))); err != nil {
		return nil, err
	}
	return file, s.write(ctx, s.meta, s.attempt, location, content)
}

// metadataProperty is the table property that names the folder of new metadata files.
const metadataProperty = "write.metadata.path"

// metadataFolder returns the folder of the table's new manifests.
func metadataFolder(m *metadata.Loaded) string {
	folder := cmp.Or(m.Properties()[metadataProperty], strings.TrimRight(m.Location(), "/")+"/"+metadata.Folder)
	return strings.TrimRight(folder, "/")
}

// list writes the manifest list, and returns the snapshot.
func (s *preparing) list(ctx context.Context, files []iceberg.ManifestFile) (*revision.Snapshot, error) {
	location := fmt.Sprintf("%s/%s-snap-%d-%s.avro", metadataFolder(s.meta), s.prefix, s.id, uuid.NewString())
	content, rows, err := s.new.EncodeList(files)
	if err != nil {
		return nil, fault.New(fault.Invalid, "a manifest list of table %s cannot be written: %w", s.table, err).In(s.table, location)
	}
	if err := s.meta.File.Charge(int64(len(content))); err != nil {
		return nil, err
	}
	if err := s.write(ctx, s.meta, s.attempt, location, content); err != nil {
		return nil, err
	}
	s.attempt.list = location
	out := &revision.Snapshot{
		ID: s.id, Parent: s.new.Parent, Time: s.time(), Summary: s.summary(), List: location, Schema: s.schema.ID,
	}
	if s.new.Version > 1 {
		out.Sequence = s.new.Sequence
	}
	if s.new.Version >= metadata.LineageVersion {
		out.FirstRow, out.Rows = &s.new.FirstRow, &rows
	}
	return out, nil
}

// time returns the snapshot's time in milliseconds. It is not before the time of the token, so that
// latestForgotten can conclude from the remaining snapshots which tokens may have expired. It is
// also not before the table's last change, because other readers require this.
func (s *preparing) time() int64 {
	out := max(s.source.Now().UnixMilli(), s.meta.LastUpdatedMillis())
	if s.head != nil {
		out = max(out, s.head.TimestampMs)
	}
	if at, timed := commit.TokenTime(s.change.Token); timed {
		out = max(out, at.UnixMilli())
	}
	return out
}

// summary returns the snapshot's summary.
func (s *preparing) summary() map[string]string {
	out := maps.Clone(s.change.Summary)
	if out == nil {
		out = map[string]string{}
	}
	out["operation"] = s.change.Mode.String()
	if s.change.Token != "" {
		out[commit.SummaryToken] = s.change.Token
	}
	if s.change.Begin != 0 && s.attempt.parent == 0 {
		out[commit.SummaryBegan] = s.change.Branch
	}
	if s.change.Rows.Digest != "" {
		out[commit.SummaryRows] = s.change.Rows.Digest
	}
	s.counts.describe(out, s.head)
	return out
}
