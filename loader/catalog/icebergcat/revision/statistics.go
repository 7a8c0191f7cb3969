package revision

import (
	"bytes"
	"encoding/json"
	"slices"

	icetable "github.com/apache/iceberg-go/table"

	"github.com/penstock/penstock/loader/catalog/icebergcat/metadata"
)

// Statistics is the statistics file of a snapshot, in the JSON form of the metadata.
type Statistics struct {
	Snapshot int64  `json:"snapshot-id"`
	Path     string `json:"statistics-path"`
	Size     int64  `json:"file-size-in-bytes"`
	Footer   int64  `json:"file-footer-size-in-bytes"`
	// Blobs are the blobs of the file that the metadata describes, not nil.
	Blobs []StatisticsBlob `json:"blob-metadata"`
}

// StatisticsBlob describes a blob of a statistics file.
type StatisticsBlob struct {
	Type       string            `json:"type"`
	Snapshot   int64             `json:"snapshot-id"`
	Sequence   int64             `json:"sequence-number"`
	Fields     []int             `json:"fields"`
	Properties map[string]string `json:"properties,omitempty"`
}

// DescribedBlob returns the description of a blob that the metadata already has.
func DescribedBlob(b icetable.BlobMetadata) StatisticsBlob {
	out := StatisticsBlob{Type: string(b.Type), Snapshot: b.SnapshotID, Sequence: b.SequenceNumber, Fields: []int{}, Properties: b.Properties}
	for _, id := range b.Fields {
		out.Fields = append(out.Fields, int(id))
	}
	return out
}

// statisticsMember is the name of the list of statistics files in the metadata.
const statisticsMember = "statistics"

// addTo sets the statistics file of its snapshot in metadata. The entries of other snapshots keep their text.
func (s *Statistics) addTo(object []member) ([]member, error) {
	own, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	var entries, kept []json.RawMessage
	if list := find(object, statisticsMember); list != nil {
		if err := json.Unmarshal(list, &entries); err != nil {
			return nil, err
		}
	}
	for _, e := range entries {
		var of struct {
			Snapshot int64 `json:"snapshot-id"`
		}
		if err := json.Unmarshal(e, &of); err != nil {
			return nil, err
		}
		if of.Snapshot != s.Snapshot {
			kept = append(kept, e)
		}
	}
	list := append(append([]byte{'['}, bytes.Join(rawTexts(append(kept, own)), []byte{','})...), ']')
	return set(object, statisticsMember, list), nil
}

// expected returns the statistics files that metadata m has after s was set. A nil s changes nothing.
func (s *Statistics) expected(m *metadata.Loaded) []icetable.StatisticsFile {
	all := slices.Collect(m.Statistics())
	if s == nil {
		return all
	}
	all = slices.DeleteFunc(all, func(f icetable.StatisticsFile) bool { return f.SnapshotID == s.Snapshot })
	return append(all, icetable.StatisticsFile{
		SnapshotID: s.Snapshot, StatisticsPath: s.Path, FileSizeInBytes: s.Size, FileFooterSizeInBytes: s.Footer, BlobMetadata: make([]icetable.BlobMetadata, len(s.Blobs)),
	})
}

// sameStatistics reports whether two entries describe the same file. It does not compare the descriptions of blobs.
func sameStatistics(a, b icetable.StatisticsFile) bool {
	return a.SnapshotID == b.SnapshotID && a.StatisticsPath == b.StatisticsPath && a.FileSizeInBytes == b.FileSizeInBytes &&
		a.FileFooterSizeInBytes == b.FileFooterSizeInBytes && len(a.BlobMetadata) == len(b.BlobMetadata)
}
