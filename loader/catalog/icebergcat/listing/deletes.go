package listing

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"github.com/apache/iceberg-go"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/icebergcat/column"
	"github.com/penstock/penstock/loader/catalog/icebergcat/metafile"
)

// deleteFile is a delete file that a manifest lists.
type deleteFile struct {
	*catalog.DeleteFile
	bounded string // the data file that all its rows name, according to its value ranges; "" if unknown
}

// deletes converts the delete files of a manifest. It returns an error if this version cannot read
// one of them correctly.
func (l *Listing) deletes(in *ManifestEntries) (Found, error) {
	out := Found{deletes: make([]deleteFile, len(in.Live))}
	for i, e := range in.Live {
		var err error
		if out.deletes[i], err = l.deleteFile(e, in); err != nil {
			return Found{}, err
		}
	}
	return out, nil
}

func (l *Listing) deleteFile(e iceberg.ManifestEntry, in *ManifestEntries) (deleteFile, error) {
	d := e.DataFile()
	location := d.FilePath()
	if len(d.KeyMetadata()) > 0 {
		return deleteFile{}, l.encrypted(location)
	}
	if err := l.meta.May("delete file", location); err != nil {
		return deleteFile{}, err
	}
	out := deleteFile{DeleteFile: &catalog.DeleteFile{
		Location: location, Bytes: d.FileSizeBytes(), Rows: d.Count(), Sequence: e.SequenceNum(), Spec: int(d.SpecID()),
	}}
	if out.Sequence < 0 || out.Bytes < 0 || out.Rows < 0 {
		return out, metafile.Corrupt(l.meta.Name, in.location, "manifest %s gives delete file %s sequence number %d, %d bytes and %d rows",
			in.location, location, out.Sequence, out.Bytes, out.Rows)
	}
	var err error
	if out.Partition, err = l.partition(d.Partition(), catalog.File{Location: location, Spec: out.Spec}, in.location); err != nil {
		return out, err
	}
	if r := d.ReferencedDataFile(); r != nil {
		out.Data = *r
	}
	parquet := strings.EqualFold(string(d.FileFormat()), string(iceberg.ParquetFile))
	puffin := strings.EqualFold(string(d.FileFormat()), string(iceberg.PuffinFile))
	switch content := d.ContentType(); {
	case content == iceberg.EntryContentPosDeletes && puffin:
		return out, l.vector(out, d, in)
	case content == iceberg.EntryContentPosDeletes && parquet:
		out.Kind = catalog.PositionDeletes
		if low, high := d.LowerBoundValues()[catalog.PathField], d.UpperBoundValues()[catalog.PathField]; len(low) > 0 && bytes.Equal(low, high) {
			out.bounded = string(low)
		}
		return out, nil
	case content == iceberg.EntryContentEqDeletes && parquet:
		return out, l.equality(out, d, in)
	case content != iceberg.EntryContentPosDeletes && content != iceberg.EntryContentEqDeletes:
		return out, metafile.Corrupt(l.meta.Name, in.location, "manifest %s of deletes lists %s, whose content is %d", in.location, location, content)
	default:
		return out, fault.New(fault.Invalid, "delete file %s of table %s is of format %s: only Parquet and Puffin are supported by this version",
			location, l.meta.Name, d.FileFormat()).In(l.meta.Name, location).
			WithRemedy("rewrite the table's data files, so that the delete file is not needed")
	}
}

// vector fills in the fields of a deletion vector.
func (l *Listing) vector(out deleteFile, d iceberg.DataFile, in *ManifestEntries) error {
	out.Kind = catalog.DeletionVector
	offset, length := d.ContentOffset(), d.ContentSizeInBytes()
	outside := func() bool { return *length > out.Bytes || *offset > out.Bytes-*length } // if stored sizes are used, the reader of the file checks this
	if out.Data == "" || offset == nil || length == nil || *offset < 0 || *length < 0 || !l.source.StoredSizes && outside() {
		return metafile.Corrupt(l.meta.Name, in.location, "manifest %s does not say where in %s a deletion vector lies, or of which data file it is",
			in.location, out.Location)
	}
	out.Offset, out.Length = *offset, *length
	return nil
}

// equality fills in the columns of equality deletes.
func (l *Listing) equality(out deleteFile, d iceberg.DataFile, in *ManifestEntries) error {
	out.Kind = catalog.EqualityDeletes
	ids := slices.Compact(slices.Sorted(slices.Values(d.EqualityFieldIDs())))
	if len(ids) == 0 {
		return metafile.Corrupt(l.meta.Name, in.location, "manifest %s lists equality deletes %s without columns", in.location, out.Location)
	}
	for _, id := range ids {
		f, dropped, ok := l.everKnown(id)
		if !ok {
			return metafile.Corrupt(l.meta.Name, in.location, "equality deletes %s name a column with field id %d, which table %s never had",
				out.Location, id, l.meta.Name)
		}
		if dropped && f.InitialDefault != nil {
			return fault.New(fault.Invalid, "equality deletes %s of table %s compare column %q, which was dropped and has an initial default: not supported by this version",
				out.Location, l.meta.Name, f.Name).In(l.meta.Name, out.Location).
				WithRemedy("rewrite the table's data files, so that the delete file is not needed")
		}
		if _, primitive := f.Type.(iceberg.PrimitiveType); !primitive || !column.Served(f.Type) {
			return fault.New(fault.Invalid, "equality deletes %s of table %s compare column %q of type %s, which is not supported by this version",
				out.Location, l.meta.Name, f.Name, l.meta.TypeName(f)).In(l.meta.Name, out.Location).
				WithRemedy("rewrite the table's data files, so that the delete file is not needed")
		}
		out.Columns = append(out.Columns, column.Convert([]iceberg.NestedField{f})...)
	}
	return nil
}

// everKnown returns the column with a field id from the pinned schema. If the column was dropped,
// it returns it from the last schema that had it.
func (l *Listing) everKnown(id int) (f iceberg.NestedField, dropped, ok bool) {
	is := func(f iceberg.NestedField) bool { return f.ID == id }
	if all := column.All(l.Schema); slices.ContainsFunc(all, is) {
		return all[slices.IndexFunc(all, is)], false, true
	}
	schemas := slices.Clone(l.schemas)
	slices.SortFunc(schemas, func(a, b *iceberg.Schema) int { return cmp.Compare(b.ID, a.ID) })
	for _, s := range schemas {
		if all := column.All(s); slices.ContainsFunc(all, is) {
			f := all[slices.IndexFunc(all, is)]
			f.Required = false // files that were written after the column was dropped lack it
			return f, true, true
		}
	}
	return iceberg.NestedField{}, false, false
}

// Named returns the delete files. If the value range of a file of position deletes has one single
// location, it sets Data to this location. The location may be truncated, though: if it is a prefix
// of the location of a live data file, Data stays "", because the deletes may apply to any file.
func (f Found) Named() []*catalog.DeleteFile {
	out := make([]*catalog.DeleteFile, len(f.deletes))
	var locations []string
	for i, d := range f.deletes {
		out[i] = d.DeleteFile
		if d.Data != "" || d.bounded == "" {
			continue
		}
		if locations == nil {
			locations = make([]string, len(f.Data))
			for k, data := range f.Data {
				locations[k] = data.Location
			}
			slices.Sort(locations)
		}
		at, exact := slices.BinarySearch(locations, d.bounded)
		cut := !exact && at < len(locations) && strings.HasPrefix(locations[at], d.bounded)
		if !cut {
			d.Data = d.bounded
		}
	}
	return out
}
