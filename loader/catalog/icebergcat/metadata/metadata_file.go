package metadata

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/loader/catalog/icebergcat/metafile"
)

// MetadataFile reads a metadata file below the folder of the table with the given uuid. The file
// may describe another table. MetadataFile returns the uuid of the table that the file describes
// and the number of snapshots in it, and calls each with all texts in the file, which include all
// locations. It returns "" and 0 if the file describes no table or no longer exists.
func (s *Source) MetadataFile(ctx context.Context, table, uuid, location string, each func(location string)) (owner string, snapshots int, err error) {
	held := s.Hold(table)
	defer held.Release()
	owner, snapshots, err = s.metadataOwner(ctx, s.Allow(metafile.Subject{What: "metadata", Table: table, Location: location}, held), uuid, each)
	if fault.KindOf(err) == fault.Corrupt {
		return "", 0, nil
	}
	return strings.ToLower(owner), snapshots, err
}

func (s *Source) metadataOwner(ctx context.Context, file metafile.Allowance, uuid string, each func(location string)) (string, int, error) {
	content, err := s.Read(ctx, tableOpener{source: s, table: file.Table, uuid: uuid}, file)
	if err != nil {
		return "", 0, err
	}
	unreadable := func(err error) error {
		if _, ok := errors.AsType[*fault.Error](err); ok {
			return err
		}
		return metafile.Corrupt(file.Table, file.Location, "file %s has no metadata of a table: %w", file.Location, err)
	}
	text, err := file.Text(content)
	if err != nil {
		return "", 0, unreadable(err)
	}
	if err := file.ChargeParsing(text); err != nil {
		return "", 0, err
	}
	var described struct {
		UUID      string     `json:"table-uuid"`
		Snapshots []struct{} `json:"snapshots"`
	}
	if err := json.Unmarshal(text, &described); err != nil {
		return "", 0, unreadable(err)
	}
	return described.UUID, len(described.Snapshots), EachText(text, each)
}

// EachText calls each with every string in a JSON document. The caller has checked that the
// document is valid.
func EachText(document []byte, each func(string)) error {
	tokens := json.NewDecoder(bytes.NewReader(document))
	for {
		token, err := tokens.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if text, ok := token.(string); ok {
			each(text)
		}
	}
}

// tableOpener opens files of a table with the credentials that the catalog grants for the table.
type tableOpener struct {
	source      *Source
	table, uuid string
}

// Open implements tablestore.Opener.
func (o tableOpener) Open(ctx context.Context, location string, size int64) (store.Object, error) {
	return o.source.Files.OpenIn(ctx, o.table, o.uuid, location, size)
}
