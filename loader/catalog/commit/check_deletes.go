package commit

import (
	"reflect"
	"slices"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
)

// firstBlob is the number of bytes before the blobs of a Puffin file.
const firstBlob = 4

// checkDeletes checks the delete files to add and to remove.
func (c Change) checkDeletes() error {
	if err := unrepeated("remove_deletes", len(c.RemoveDeletes), func(i int) string { return c.RemoveDeletes[i] }); err != nil {
		return err
	}
	if len(c.AddDeletes) == 0 {
		return nil
	}
	added := make(map[string]*DataFile, len(c.Add))
	for i := range c.Add {
		added[c.Add[i].Location] = &c.Add[i]
	}
	vectors, files := map[string]bool{}, map[string]bool{}
	for _, d := range c.AddDeletes {
		of := added[d.Data]
		switch {
		case d.Location == "":
			return fault.InvalidField("add_deletes", "a delete file has no location")
		case slices.Contains(c.RemoveDeletes, d.Location):
			return fault.InvalidField("add_deletes", "delete file %s is added and removed", d.Location).WithRemedy("write the deletes to a file of another name")
		case of == nil:
			return fault.InvalidField("add_deletes", "delete file %s is of data file %q, which the change does not add", d.Location, d.Data)
		case d.Kind == catalog.DeletionVector && vectors[d.Data]:
			return fault.InvalidField("add_deletes", "data file %s has two deletion vectors", d.Data)
		case d.Kind != catalog.DeletionVector && files[d.Location]:
			return fault.InvalidField("add_deletes", "file %s is given twice", d.Location)
		}
		if err := of.checkDelete(d); err != nil {
			return err
		}
		files[d.Location] = true
		vectors[d.Data] = vectors[d.Data] || d.Kind == catalog.DeletionVector
	}
	return nil
}

// checkDelete checks a delete file d that applies to the added data file f.
func (f *DataFile) checkDelete(d catalog.DeleteFile) error {
	vector := d.Kind == catalog.DeletionVector
	switch {
	case d.Kind == catalog.EqualityDeletes || len(d.Columns) > 0:
		return fault.InvalidField("add_deletes", "%s has equality deletes, which a change does not add", d.Location)
	case d.Rows <= 0 || d.Rows > f.Rows || d.Bytes <= 0:
		return fault.InvalidField("add_deletes", "delete file %s has %d rows and %d bytes, and data file %s has %d rows", d.Location, d.Rows, d.Bytes, f.Location, f.Rows)
	case vector && (d.Offset < firstBlob || d.Length <= 0 || d.Length > d.Bytes || d.Offset > d.Bytes-d.Length):
		return fault.InvalidField("add_deletes", "the deletion vector at byte %d of %s has %d bytes, and the file has %d", d.Offset, d.Location, d.Length, d.Bytes)
	case d.Spec != f.Spec || !reflect.DeepEqual(d.Partition, f.Partition) && len(d.Partition)+len(f.Partition) > 0:
		return fault.InvalidField("add_deletes", "delete file %s is of another partition than data file %s", d.Location, f.Location)
	case d.Sequence < 0 || d.Sequence > 0 && (f.Sequence == 0 || d.Sequence < f.Sequence):
		return fault.InvalidField("add_deletes", "delete file %s has sequence number %d, which is older than data file %s: it would not apply", d.Location, d.Sequence, f.Location)
	}
	return nil
}
