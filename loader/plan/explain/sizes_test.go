package explain_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/plan/explain"
	"github.com/penstock/penstock/loader/plan/plantest"
)

// TestExplainGivesTheSizesOfColumns checks what the texts say of the bytes that streams read: with the sizes of all files, of some,
// and of none. The plan itself stays as it is.
//
// spec: resolve-119
func TestExplainGivesTheSizesOfColumns(t *testing.T) {
	t.Parallel()
	tables, files := plantest.Mixed()
	p, err := plantest.Joined(plantest.Homefeed(plantest.Entry()), tables, files, dataset.Query{Rows: dataset.Rows{Lanes: 2}})
	require.NoError(t, err)
	q := dataset.Query{}.Defaults()
	whole := explain.Text(p, q, nil)
	training, staging := map[string]int64{}, map[string]int64{}
	for _, f := range files.Training.Files {
		training[f.Location] = 100
	}
	for _, f := range files.Staging[0].Files {
		staging[f.Location] = 2 << 10
	}
	said := func(training, staging map[string]int64) (full, summary string) {
		sizes := &plan.ColumnSizes{Training: training, Staging: []map[string]int64{staging}}
		return explain.Text(p, q, sizes), explain.Summary(p, q, sizes, 40)
	}
	for _, line := range []string{"12 files, 11.8 KiB with all columns\n", "KiB with all columns, each once while it is kept"} {
		require.Contains(t, whole, line)
	}
	full, summary := said(training, staging)
	for _, text := range []string{full, summary} {
		require.Contains(t, text, "about 1.2 KiB of 11.8 KiB for its columns")
		require.NotContains(t, text, "with all columns\n")
	}
	require.Regexp(t, `  reads \d+ file groups, about [0-9.]+ KiB of [0-9.]+ [KM]iB for its columns, each once while it is kept`, full)

	delete(training, files.Training.Files[0].Location)
	delete(training, files.Training.Files[1].Location)
	for f := range staging {
		delete(staging, f)
	}
	full, summary = said(training, staging)
	require.Regexp(t, `, up to [0-9.]+ KiB of 11.8 KiB for its columns, 2 files counted whole\n`, full)
	require.Regexp(t, `, up to [0-9.]+ KiB of 11.8 KiB, 2 files whole\n`, summary)
	require.Contains(t, full, "with all columns, each once while it is kept")
	require.Equal(t, whole, explain.Text(p, q, nil))
}
