package verify

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/plan"
)

// Forms shows how both tables write their keys. It is made for a join that matches few rows or
// none, and for a join of which many keys without a match exist in another spelling.
type Forms struct {
	Training KeyColumns `json:"training"`
	Staging  KeyColumns `json:"staging"`
	// Pairs are a few keys of both tables, next to each other. If Alike is true, the keys
	// of a pair are equal or differ only in Differences. Otherwise, the keys of a pair have nothing
	// to do with each other.
	Pairs []Pair `json:"pairs"`
	// Alike is whether the two keys of each pair are equal except for Differences. If there are no
	// differences, the keys are equal, and files, partitions or times prevent their match.
	Alike       bool            `json:"alike"`
	Differences []KeyDifference `json:"differences"`
	// Sampled is the number of keys of training rows without a match that were looked for in the
	// staging table, and Respelled the number of those that it has in another spelling only.
	Sampled   int `json:"sampled"`
	Respelled int `json:"respelled"`
}

// KeyColumns names the columns of a key and their types.
type KeyColumns struct {
	Columns []string `json:"columns"`
	Types   []string `json:"types"`
}

// Pair has one key of each table, as text; "" means no key.
type Pair struct {
	Training string `json:"training"`
	Staging  string `json:"staging"`
}

func (k *KeyColumns) add(f catalog.Field) {
	k.Columns, k.Types = append(k.Columns, f.Name), append(k.Types, f.Type.String())
}

// String returns the columns and types as "req_id (utf8)".
func (k *KeyColumns) String() string {
	parts := make([]string, len(k.Columns))
	for i := range k.Columns {
		parts[i] = fmt.Sprintf("%s (%s)", k.Columns[i], k.Types[i])
	}
	return strings.Join(parts, ", ")
}

// readSplit is like read, for the training columns of the check in a split.
func (c *keyCheck) readSplit(ctx context.Context, split int, do func(rows arrow.RecordBatch, first int64) error) error {
	whole := c.plan.Training(plan.Range{Split: split, To: c.plan.Splits[split].Rows})
	whole.Checked = nil
	whole.Planned = slices.Concat(whole.Planned, c.probing) // the plan may not have these columns, if the query does not need the entry
	slices.Sort(whole.Planned)
	for _, file := range whole.Files {
		source := whole
		source.Files = []plan.FileRange{file}
		if _, err := c.read(ctx, trainingName, source, c.columns.training, do); err != nil {
			return err
		}
	}
	return nil
}
