// Command tensorblocks converts record batches to blocks of tensors, for tests that compare them with the
// tensors of the Python package.
//
// Standard input has a folder on each line. A folder contains batch.arrow, an IPC stream with one
// batch; plan.json, the plan with its vocabularies; and slice.json, which says which rows of the batch to convert. The command writes the file block into the folder, or
// else error.json, and then prints a line.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	_ "github.com/apache/arrow-go/v18/arrow/extensions" // registers extension types, which are then read as such
	"github.com/apache/arrow-go/v18/arrow/ipc"

	"github.com/penstock/penstock/internal/cores"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/tensor"
)

func main() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		folder := lines.Text()
		name, content := "block", []byte(nil)
		block, err := convert(folder)
		if content = block; err != nil {
			name, content = "error.json", described(err)
		}
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println(name)
	}
}

func described(err error) []byte {
	var e *fault.Error
	if !errors.As(err, &e) {
		e = fault.New(fault.Internal, "%v", err)
	}
	text, _ := json.Marshal(map[string]string{"kind": e.Kind.String(), "message": e.Message, "remedy": e.Remedy})
	return text
}

func convert(folder string) ([]byte, error) {
	batch, err := read(filepath.Join(folder, "batch.arrow"))
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(folder, "plan.json"))
	if err != nil {
		return nil, err
	}
	plan, err := tensor.ReadPassed(text)
	if err != nil {
		return nil, err
	}
	layout, err := tensor.Compile(batch.Schema(), plan)
	if err != nil {
		return nil, err
	}
	var rows struct{ From, To int64 }
	if text, err = os.ReadFile(filepath.Join(folder, "slice.json")); err != nil {
		return nil, err
	}
	if err = json.Unmarshal(text, &rows); err != nil {
		return nil, err
	}
	return fill(layout, batch.NewSlice(rows.From, rows.To))
}

// fill fills a block whose memory contains other bytes before, on several cores.
func fill(layout *tensor.Layout, batch arrow.RecordBatch) ([]byte, error) {
	sizes, err := layout.Size(batch)
	if err != nil {
		return nil, err
	}
	block := slices.Repeat([]byte{0xa5}, int(sizes.Bytes))
	return block, layout.Fill(batch, sizes, block, cores.New(4))
}

func read(path string) (arrow.RecordBatch, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	reader, err := ipc.NewReader(file)
	if err != nil {
		return nil, err
	}
	if !reader.Next() {
		return nil, fmt.Errorf("%s has no batch: %w", path, reader.Err())
	}
	batch := reader.RecordBatch()
	batch.Retain()
	return batch, nil
}
