package deletes

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/internal/store/storetest"
	"github.com/penstock/penstock/loader/catalog"
)

// trusting opens files with the size in storage, or with the one that is claimed, as S3 does.
type trusting struct {
	files  *storetest.Memory
	stored bool
}

func (f trusting) Open(ctx context.Context, _ *catalog.Table, location string, size int64) (store.Object, error) {
	o, err := f.files.Open(ctx, location, store.SizeUnknown)
	if err != nil || f.stored {
		return o, err
	}
	return claimed{o, size}, nil
}

type claimed struct {
	store.Object
	size int64
}

func (c claimed) Size() int64 { return c.size }

// TestClaimedVectors checks that no memory is allocated for the length that a manifest gives a
// deletion vector, beyond what was reserved or what the file holds.
//
// spec: catalog-35, delete-5
func TestClaimedVectors(t *testing.T) {
	files := storetest.NewMemory()
	files.Put("file:///d.puffin", make([]byte, 100))
	for name, c := range map[string]struct {
		length, offset int64
		stored         bool
		limit          int64 // of the budget; 0: none
		kind           fault.Kind
		text           string
	}{
		"longer than a blob can be":   {1 << 59, 4, false, 1 << 20, fault.Corrupt, "at most"},
		"the same without a budget":   {1 << 59, 4, false, 0, fault.Corrupt, "at most"},
		"more than the budget":        {1 << 31, 4, false, 1 << 20, fault.Exhausted, ""},
		"beyond the end of the file":  {97, 4, true, 1 << 20, fault.Corrupt, "the file has 100 bytes"},
		"begins behind the file":      {9, 1 << 60, true, 1 << 20, fault.Corrupt, "the file has 100 bytes"},
		"beyond the end, no budget":   {1 << 31, 4, true, 0, fault.Corrupt, "the file has 100 bytes"},
		"no vector, but in the file ": {50, 4, true, 1 << 20, fault.Corrupt, "cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			var limit *budget.Budget
			if c.limit > 0 {
				limit = budget.New(c.limit)
			}
			p := New(Options{Files: trusting{files, c.stored}, Budget: limit})
			_, err := p.loadVector(t.Context(), &catalog.Table{}, &catalog.DeleteFile{
				Kind: catalog.DeletionVector, Location: "file:///d.puffin", Data: "file:///a.parquet", Bytes: 1 << 60, Offset: c.offset, Length: c.length, Rows: 1,
			})
			require.Equal(t, c.kind, fault.KindOf(err), "%v", err)
			require.ErrorContains(t, err, c.text)
			if limit != nil {
				require.Zero(t, limit.Used())
			}
		})
	}
}
