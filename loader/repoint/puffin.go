package repoint

import (
	"encoding/binary"
	"encoding/json"
	"strconv"
)

// Constants of the Puffin specification.
const (
	puffinMagic = "PFA1"
	vectorType  = "deletion-vector-v1"
	rowPosition = 2147483645 // the reserved field id of the position of a row in its file
	flagBytes   = 4
)

// puffinBlob describes a blob in the footer of a Puffin file.
type puffinBlob struct {
	Type       string            `json:"type"`
	Fields     []int             `json:"fields"`
	Snapshot   int64             `json:"snapshot-id"`
	Sequence   int64             `json:"sequence-number"`
	Offset     int64             `json:"offset"`
	Length     int64             `json:"length"`
	Properties map[string]string `json:"properties"`
}

// puffinFile builds a Puffin file of deletion vectors.
type puffinFile struct {
	content []byte
	blobs   []puffinBlob
}

// add appends the deletion vector of a data file, and returns its offset and length.
func (f *puffinFile) add(vector []byte, rows int64, data string) (offset, length int64) {
	if len(f.content) == 0 {
		f.content = append(f.content, puffinMagic...)
	}
	offset, length = int64(len(f.content)), int64(len(vector))
	f.content = append(f.content, vector...)
	f.blobs = append(f.blobs, puffinBlob{
		Type: vectorType, Fields: []int{rowPosition}, Snapshot: -1, Sequence: -1, // -1 says that the commit sets the value
		Offset: offset, Length: length,
		Properties: map[string]string{"referenced-data-file": data, "cardinality": strconv.FormatInt(rows, 10)},
	})
	return offset, length
}

// end returns the complete file.
func (f *puffinFile) end() ([]byte, error) {
	payload, err := json.Marshal(struct {
		Blobs      []puffinBlob      `json:"blobs"`
		Properties map[string]string `json:"properties"`
	}{f.blobs, map[string]string{"created-by": "penstock"}})
	if err != nil {
		return nil, err
	}
	out := append(append(f.content, puffinMagic...), payload...)
	out = binary.LittleEndian.AppendUint32(out, uint32(len(payload))) //nolint:gosec // a description of files
	out = append(out, make([]byte, flagBytes)...)
	return append(out, puffinMagic...), nil
}
