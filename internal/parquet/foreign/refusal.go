package foreign

import (
	"errors"
	"fmt"
	"io"

	"github.com/penstock/penstock/internal/fault"
)

// The first and the last bytes of Parquet files. A file with an encrypted footer ends with
// magicEncrypted.
const (
	magic          = "PAR1"
	magicEncrypted = "PARE"
)

// refusal returns the error of a file that the library cannot open as a Parquet file, with a cause
// and a remedy that depend on the first and the last bytes of the file. err is the error of the
// library. An error of the storage is returned as it is.
func refusal(path string, content Content, err error) error {
	if e := (*fault.Error)(nil); errors.As(err, &e) {
		return e
	}
	start, end, size := make([]byte, len(magic)), make([]byte, len(magic)), content.Size()
	if size >= int64(len(magic)) {
		_, startErr := content.ReadAt(start, 0)
		_, endErr := content.ReadAt(end, size-int64(len(magic)))
		for _, e := range []error{startErr, endErr} {
			if e != nil && !errors.Is(e, io.EOF) {
				return fault.Op(e, "read %s", path)
			}
		}
	}
	cause, remedy := fmt.Errorf("the footer cannot be decoded: %w", err), "the file is damaged: write or copy it again"
	switch {
	case size == 0:
		cause, remedy = errors.New("it is empty"), "write or copy the file again, or leave it out"
	case string(end) == magicEncrypted:
		cause, remedy = errors.New("it is encrypted"), "write the file without encryption"
	case string(end) == magic:
	case string(start) == magic:
		cause, remedy = fmt.Errorf("its end is missing: it begins with %s, and does not end with it", magic), "write or copy the file again, and stage it when it is complete"
	default:
		cause, remedy = fmt.Errorf("it has another format: it does not begin with %s", magic), "write the rows as Parquet, or give the file a name that ends with its format, such as .csv, .jsonl or .arrow"
	}
	return fault.New(fault.Invalid, "%s cannot be read as a Parquet file: %w", path, cause).In("", path).WithRemedy("%s", remedy)
}
