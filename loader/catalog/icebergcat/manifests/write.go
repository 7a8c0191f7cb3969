// Package manifests encodes the manifests and the manifest list of a new snapshot, with
// iceberg-go's writers. It neither reads nor writes files, and does not look at the table: callers
// pass everything that it needs.
package manifests

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/apache/iceberg-go"
)

// NewSnapshot has what all manifests of a new snapshot have in common.
type NewSnapshot struct {
	Version  int // format version: 1, 2 or 3
	ID       int64
	Parent   *int64
	Sequence int64 // unused in version 1
	FirstRow int64 // the table's next row id; unused below version 3
}

// ManifestForm has what all entries of one manifest have in common.
type ManifestForm struct {
	Spec    iceberg.PartitionSpec
	Schema  *iceberg.Schema
	Content iceberg.ManifestContent // data files or delete files
}

// Encode returns the content of a manifest, and its entry for the manifest list. All entries must
// have the partition spec and the content type of form. Each is written with its status.
func (s NewSnapshot) Encode(location string, form ManifestForm, entries []iceberg.ManifestEntry) ([]byte, iceberg.ManifestFile, error) {
	var out bytes.Buffer
	writer, err := iceberg.NewManifestWriter(s.Version, &out, avroSpec(form.Spec), form.Schema, s.ID, iceberg.WithManifestWriterContent(form.Content))
	if err != nil {
		return nil, nil, err
	}
	for _, e := range entries {
		if int(e.DataFile().SpecID()) != form.Spec.ID() {
			return nil, nil, fmt.Errorf("file %s is of partition spec %d, not %d", e.DataFile().FilePath(), e.DataFile().SpecID(), form.Spec.ID())
		}
		if err := add(writer, e); err != nil {
			return nil, nil, fmt.Errorf("file %s: %w", e.DataFile().FilePath(), err)
		}
	}
	if err := writer.Close(); err != nil {
		return nil, nil, err
	}
	file, err := writer.ToManifestFile(location, int64(out.Len()))
	if err != nil {
		return nil, nil, err
	}
	return out.Bytes(), withBounds(file, form), nil
}

// withBounds returns a manifest whose bounds of partition values are correct for all readers. It
// corrects two things that the library does. First, the library writes an empty bound as if there
// were none, and readers that see no bounds assume that all values are null, so they would skip the
// manifest. Second, the library treats -0.0 and 0.0 as equal and keeps the one that comes first,
// but some engines order them: a lower bound of zero must be -0.0, and an upper bound 0.0.
func withBounds(m iceberg.ManifestFile, form ManifestForm) iceberg.ManifestFile {
	partitions := m.Partitions()
	types := form.Spec.PartitionType(form.Schema).FieldList
	for i, p := range partitions {
		for _, bound := range []*[]byte{p.LowerBound, p.UpperBound} {
			if bound != nil && *bound == nil {
				*bound = []byte{}
			}
		}
		switch types[i].Type.(type) {
		case iceberg.Float32Type, iceberg.Float64Type:
			withSign(p.LowerBound, true)
			withSign(p.UpperBound, false)
		}
	}
	return iceberg.NewManifestFile(m.Version(), m.FilePath(), m.Length(), m.PartitionSpecID(), m.SnapshotID()).
		SequenceNum(m.SequenceNum(), m.MinSequenceNum()).Content(m.ManifestContent()).
		AddedFiles(m.AddedDataFiles()).ExistingFiles(m.ExistingDataFiles()).DeletedFiles(m.DeletedDataFiles()).
		AddedRows(m.AddedRows()).ExistingRows(m.ExistingRows()).DeletedRows(m.DeletedRows()).Partitions(partitions).Build()
}

// withSign sets the sign of a floating-point bound that is zero. The sign is the highest bit of the
// last byte.
func withSign(bound *[]byte, negative bool) {
	if bound == nil || len(*bound) == 0 {
		return
	}
	const sign = 0x80
	zero := slices.Clone(*bound)
	last := len(zero) - 1
	zero[last] &^= sign
	if slices.ContainsFunc(zero, func(b byte) bool { return b != 0 }) {
		return
	}
	if negative {
		zero[last] = sign
	}
	*bound = zero
}

// add writes an entry with its status.
func add(writer *iceberg.ManifestWriter, e iceberg.ManifestEntry) error {
	switch e.Status() {
	case iceberg.EntryStatusADDED:
		return writer.Add(e)
	case iceberg.EntryStatusEXISTING:
		return writer.Existing(e)
	case iceberg.EntryStatusDELETED:
		return writer.Delete(e)
	}
	return fmt.Errorf("entry status %d is unknown", e.Status())
}

// EncodeList returns the content of the snapshot's manifest list, and the number of row ids that
// the list assigns, which is 0 below version 3.
func (s NewSnapshot) EncodeList(files []iceberg.ManifestFile) (content []byte, rows int64, err error) {
	var out bytes.Buffer
	writer, err := s.list(&out)
	if err != nil {
		return nil, 0, err
	}
	if err := writer.AddManifests(files); err != nil {
		return nil, 0, err
	}
	if next := writer.NextRowID(); next != nil {
		rows = *next - s.FirstRow
	}
	if err := writer.Close(); err != nil {
		return nil, 0, err
	}
	return out.Bytes(), rows, nil
}

func (s NewSnapshot) list(out *bytes.Buffer) (*iceberg.ManifestListWriter, error) {
	switch s.Version {
	case 1:
		return iceberg.NewManifestListWriterV1(out, s.ID, s.Parent)
	case 2: //nolint:mnd // the format version
		return iceberg.NewManifestListWriterV2(out, s.ID, s.Sequence, s.Parent)
	case 3: //nolint:mnd // the format version
		return iceberg.NewManifestListWriterV3(out, s.ID, s.Sequence, s.FirstRow, s.Parent)
	}
	return nil, fmt.Errorf("format version %d is unknown", s.Version)
}

// Added returns the manifest entry of an added file. Sequence is the data sequence number of its
// rows. If it is 0, they get the sequence number of the snapshot.
func (s NewSnapshot) Added(file iceberg.DataFile, sequence int64) iceberg.ManifestEntry {
	var explicit *int64
	if sequence > 0 && s.Version > 1 {
		explicit = &sequence
	}
	return iceberg.NewManifestEntry(iceberg.EntryStatusADDED, &s.ID, explicit, nil, file)
}

// WithAge returns the manifest entry of an added file whose rows have a given age. If snapshot is
// not 0, it is the earlier snapshot that added the rows without a sequence number; the entry then
// has the status of an existing file, because an added file would get the id of this snapshot. If
// snapshot is 0, sequence is the data sequence number of the rows, and 0 stands for that of this
// snapshot.
func (s NewSnapshot) WithAge(file iceberg.DataFile, sequence, snapshot int64) iceberg.ManifestEntry {
	if snapshot == 0 {
		return s.Added(file, sequence)
	}
	var none int64
	return iceberg.NewManifestEntry(iceberg.EntryStatusEXISTING, &snapshot, &none, &s.Sequence, file)
}

// Without returns the new entries of a manifest for a snapshot that removes some of its files: kept
// has the entries of the files that stay, and gone those of the removed files. It leaves out the
// entries of files that earlier snapshots removed.
func (s NewSnapshot) Without(entries []iceberg.ManifestEntry, removes func(iceberg.DataFile) bool) (kept, gone []iceberg.ManifestEntry) {
	for _, e := range entries {
		sequence := e.SequenceNum()
		switch {
		case e.Status() == iceberg.EntryStatusDELETED:
		case removes(e.DataFile()):
			gone = append(gone, iceberg.NewManifestEntry(iceberg.EntryStatusDELETED, &s.ID, &sequence, e.FileSequenceNum(), e.DataFile()))
		default:
			from := e.SnapshotID()
			kept = append(kept, iceberg.NewManifestEntry(iceberg.EntryStatusEXISTING, &from, &sequence, e.FileSequenceNum(), e.DataFile()))
		}
	}
	return kept, gone
}

// Live returns the manifests that have live files. The other manifests only list files that earlier
// snapshots removed.
func Live(files []iceberg.ManifestFile) []iceberg.ManifestFile {
	return slices.DeleteFunc(slices.Clone(files), func(m iceberg.ManifestFile) bool {
		return m.AddedDataFiles() == 0 && m.ExistingDataFiles() == 0
	})
}
