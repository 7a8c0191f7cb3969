package warehouse

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/iceberg-go"
	icetable "github.com/apache/iceberg-go/table"

	"github.com/penstock/penstock/internal/scenario"
	"github.com/penstock/penstock/loader/catalog"
)

// commit writes the files of one commit and its snapshot. before has the rows that the history had
// not changed yet.
func (w *table) commit(number int, parts, before []scenario.Part) error {
	if w.at(number) != w.at(number-1) {
		if err := w.alter(number); err != nil {
			return err
		}
	}
	if w.Upgrade > 0 && number == w.Upgrade {
		if err := w.metadata.SetFormatVersion(2); err != nil {
			return err
		}
	}
	if err := w.addSpec(parts[0].Spec); err != nil {
		return err
	}
	columns, err := w.stored(number)
	if err != nil {
		return err
	}
	added := len(w.live)
	for i, p := range parts {
		if err := w.file(number, columns, p, before[i].Rows); err != nil {
			return err
		}
	}
	w.ids = append(w.ids, int64(w.Uint64()>>2)+1)
	if err := w.erase(number); err != nil {
		return err
	}
	return w.snapshot(number, added)
}

// file writes one data file.
func (w *table) file(commit int, columns []physical, p scenario.Part, before arrow.RecordBatch) error {
	writer := w.writers[(commit+w.IntN(8)/7)%2]
	if writer.bare {
		columns = slices.DeleteFunc(slices.Clone(columns), func(c physical) bool { return w.partitioned(p.Spec, c) })
	}
	rows, err := storedRows(columns, p.Rows, before)
	if err != nil {
		return err
	}
	defer rows.Release()
	var shown arrow.RecordBatch
	if shown, err = w.foreign(writer, columns, rows); err != nil {
		return err
	}
	defer shown.Release()
	if writer.migrated {
		shown = w.migrate(columns, shown)
		defer shown.Release()
	}
	content, err := writer.write(shown)
	if err != nil {
		return err
	}
	location, err := w.put(fmt.Sprintf("data/%08x-%d.parquet", w.Uint32(), commit), content)
	if err != nil {
		return err
	}
	spec, err := w.metadata.GetSpecByID(p.Spec)
	if err != nil {
		return err
	}
	values, err := w.partition(spec, commit, p)
	if err != nil {
		return err
	}
	w.parted.note(spec, w.at(commit), w.script)
	b, err := iceberg.NewDataFileBuilder(*spec, iceberg.EntryContentData, location, iceberg.ParquetFile, values, w.logicalTypes(spec, commit), nil, rows.NumRows(), int64(len(content)))
	if err != nil {
		return err
	}
	writer.facts.tell(b, columns, rows)
	w.live = append(w.live, entry{b.Build(), commit})
	p.Rows.Retain()
	w.Files = append(w.Files, scenario.File{
		Part: p, Location: location, Bytes: int64(len(content)), Sequence: w.Sequence(commit), Commit: commit + 1, Rank: w.Rank(commit),
	})
	return nil
}

// partitioned reports whether a column's values are partition values of a spec. If so, it records
// the column as lacked.
func (w *table) partitioned(spec int, c physical) bool {
	is := slices.ContainsFunc(w.specs[spec], func(f catalog.PartitionField) bool {
		return f.Transform.Kind == catalog.Identity && f.Source-1 == c.from && !c.was
	})
	if is {
		w.lacked = append(w.lacked, w.fields[c.from].Name)
	}
	return is
}

// put writes a file and returns its location.
func (w *table) put(name string, content []byte) (string, error) {
	path := filepath.Join(w.dir, name)
	return w.scheme + path, os.WriteFile(path, content, 0o600)
}

// snapshot commits the live files w.live[added:] as one snapshot.
func (w *table) snapshot(number, added int) error {
	id := w.ids[number]
	var parent *int64
	if number > 0 {
		parent = &w.ids[number-1]
	}
	if number > 0 && number == w.Merged {
		if err := w.merge(number, added); err != nil {
			return err
		}
	}
	own, err := w.manifest(number, number, w.live[added:])
	if err != nil {
		return err
	}
	deletes, err := w.deleteManifests(number)
	if err != nil {
		return err
	}
	w.list = slices.Concat([]iceberg.ManifestFile{own}, w.list, deletes)
	sequence, first, rows := w.Sequence(number), w.rows, int64(0)
	for _, e := range w.live[added:] {
		rows += e.Count()
	}
	if number > 0 && number == w.Merged {
		rows = 0
		for _, e := range w.live {
			rows += e.Count() // rewritten manifests get new row ids
		}
	}
	var out bytes.Buffer
	if err := iceberg.WriteManifestList(w.format(number), &out, id, parent, &sequence, first, w.list); err != nil {
		return err
	}
	location, err := w.put(fmt.Sprintf("metadata/snap-%d.avro", id), out.Bytes())
	if err != nil {
		return err
	}
	if w.list, err = iceberg.ReadManifestList(bytes.NewReader(out.Bytes())); err != nil {
		return err
	}
	w.list = slices.DeleteFunc(w.list, func(m iceberg.ManifestFile) bool { return m.ManifestContent() == iceberg.ManifestContentDeletes })
	w.clock += int64(w.IntN(60_000)) - 20_000 // the writers' clocks differ
	s := icetable.Snapshot{
		SnapshotID: id, ParentSnapshotID: parent, SequenceNumber: sequence, TimestampMs: w.clock, ManifestList: location,
		Summary: &icetable.Summary{Operation: icetable.OpAppend, Properties: iceberg.Properties{"total-data-files": strconv.Itoa(len(w.live))}},
	}
	if schema := w.metadata.CurrentSchema().ID; !w.Unnamed || w.format(number) > 1 {
		s.SchemaID = &schema
	}
	if w.Format == 3 {
		s.FirstRowID, s.AddedRows = &first, &rows
		w.rows += rows
	}
	if err := w.metadata.AddSnapshot(&s); err != nil {
		return err
	}
	return w.metadata.SetSnapshotRef(icetable.MainBranch, id, icetable.BranchRef)
}

// merge rewrites the manifests of all earlier commits, as one manifest per spec.
func (w *table) merge(number, added int) error {
	w.list = nil
	var specs []int32
	files := map[int32][]entry{}
	for _, e := range w.live[:added] {
		if len(files[e.SpecID()]) == 0 {
			specs = append(specs, e.SpecID())
		}
		files[e.SpecID()] = append(files[e.SpecID()], e)
	}
	for _, spec := range specs {
		m, err := w.manifest(number, -1, files[spec])
		if err != nil {
			return err
		}
		w.list = append(w.list, m)
	}
	return nil
}

// manifest writes a manifest of files that one commit adds, or of files that were added earlier.
func (w *table) manifest(number, adds int, files []entry) (iceberg.ManifestFile, error) {
	schema := w.manifestSchema(number, adds)
	spec, err := w.metadata.GetSpecByID(int(files[0].SpecID()))
	if err != nil {
		return nil, err
	}
	entries := make([]iceberg.ManifestEntry, len(files))
	for i, f := range files {
		sequence := w.Sequence(f.commit)
		if f.commit == adds {
			entries[i] = iceberg.NewManifestEntry(iceberg.EntryStatusADDED, &w.ids[f.commit], nil, nil, f.DataFile)
		} else {
			entries[i] = iceberg.NewManifestEntry(iceberg.EntryStatusEXISTING, &w.ids[f.commit], &sequence, &sequence, f.DataFile)
		}
	}
	name := fmt.Sprintf("metadata/%016x-m0.avro", w.Uint64())
	var out bytes.Buffer
	plain, with := w.unspelled(spec, schema)
	m, err := iceberg.WriteManifest(w.scheme+filepath.Join(w.dir, name), &out, w.format(number), plain, with, w.ids[number], entries)
	if err != nil {
		return nil, err
	}
	_, err = w.put(name, w.spell(out.Bytes(), with != schema))
	return m, err
}

// manifestSchema returns the schema that a manifest names as its own. It may be older than the
// schema of the snapshot, if a late writer knew only the older schema.
func (w *table) manifestSchema(number, adds int) *iceberg.Schema {
	late := number == adds && w.Stale
	for _, x := range w.Changes {
		if late && x.Late && x.At == number {
			return w.at(number - 1)
		}
	}
	return w.at(number)
}

// finish makes the last schema current, lets snapshots expire and writes the metadata. It returns
// the location of the metadata.
func (w *table) finish() (string, error) {
	if err := w.alter(len(w.Lost)); err != nil {
		return "", err
	}
	var lost []int64
	for i, is := range w.Lost {
		if is {
			lost = append(lost, w.ids[i])
		}
	}
	if len(lost) > 0 {
		if err := w.metadata.RemoveSnapshots(lost, false); err != nil {
			return "", err
		}
	}
	if err := w.setMapping(); err != nil {
		return "", err
	}
	metadata, err := w.metadata.Build()
	if err != nil {
		return "", err
	}
	content, err := json.Marshal(metadata)
	if err != nil {
		return "", err
	}
	return w.put(fmt.Sprintf("metadata/00000-%016x.metadata.json", w.Uint64()), content)
}
