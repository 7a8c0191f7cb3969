package resolve_test

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/resolve"
)

// sides are two tables whose files are matched by one staging entry.
type sides struct {
	training, staging           *catalog.Table
	trainingFiles, stagingFiles []catalog.File
	entry                       dataset.Staging
}

func (s sides) relation(t *testing.T) *resolve.Relation {
	t.Helper()
	d := dataset.Dataset{Name: "d", Training: dataset.Training{Table: s.training.Name}, Staging: []dataset.Staging{s.entry}}.Defaults()
	r, err := resolve.Bind(d, s.training, []*catalog.Table{s.staging})
	require.NoError(t, err)
	return r
}

func (s sides) match(t *testing.T) (*resolve.Match, error) {
	t.Helper()
	return resolve.NewMatch(s.relation(t), 0, s.trainingFiles, s.stagingFiles, s.stagingFiles)
}

// names returns the staging files that each training file is matched with; nil
// is NoClass.
func (s sides) names(t *testing.T) [][]string {
	t.Helper()
	m, err := s.match(t)
	require.NoError(t, err)
	classes := make([]int, len(s.trainingFiles))
	for i := range s.trainingFiles {
		classes[i], _, err = m.Class(s.trainingFiles[i : i+1])
		require.NoError(t, err)
	}
	all := make([][]string, len(classes))
	for i, class := range classes {
		if class == resolve.NoClass {
			continue
		}
		all[i] = []string{}
		for _, f := range m.Sets()[class] {
			all[i] = append(all[i], s.stagingFiles[f].Location)
		}
	}
	return all
}

// numbered makes a file per bucket of n, of a spec, and one of the null bucket.
func numbered(prefix string, spec, n int) []catalog.File {
	files := []catalog.File{{Location: prefix + "null", Spec: spec, Partition: []any{nil}}}
	for c := range n {
		files = append(files, catalog.File{Location: prefix + strconv.Itoa(c), Spec: spec, Partition: []any{int64(c)}})
	}
	return files
}

// TestClasses compares with the definition for all pairs of counts: b of n and
// c of m meet exactly when some hash falls into both.
//
// spec: resolve-1, resolve-2, resolve-3
func TestClasses(t *testing.T) {
	t.Parallel()
	for n := 1; n <= 16; n++ {
		for m := 1; m <= 16; m++ {
			s := sides{training: trainingTable(n), staging: stagingTable(spec(1, m)), entry: entry()}
			s.trainingFiles, s.stagingFiles = numbered("", 0, n), numbered("", 0, m)
			met := map[[2]int]bool{}
			for hash := range n * m {
				met[[2]int{hash % n, hash % m}] = true
			}
			got := s.names(t)
			require.Nil(t, got[0], "the null bucket")
			for b := range n {
				var want []string
				for c := range m {
					if met[[2]int{b, c}] {
						want = append(want, strconv.Itoa(c))
					}
				}
				require.Equal(t, want, got[b+1], "bucket %d of %d with %d", b, n, m)
			}
		}
	}
}

// spec: resolve-4
func TestClassesOfMixedSpecs(t *testing.T) {
	t.Parallel()
	s := sides{training: trainingTable(12), staging: stagingTable(spec(1, 4), spec(1, 6)), entry: entry()}
	s.training.Specs[1] = spec(1, 8)
	s.trainingFiles = append(numbered("", 0, 12), numbered("", 1, 8)...)
	s.stagingFiles = append(numbered("four", 0, 4), numbered("six", 1, 6)...)
	got := s.names(t)
	for b := range 12 {
		require.Equal(t, []string{fmt.Sprint("four", b%4), fmt.Sprint("six", b%6)}, got[1+b])
	}
	for b := range 8 {
		var want []string
		for c := range 6 {
			if c%2 == b%2 {
				want = append(want, fmt.Sprint("six", c))
			}
		}
		require.Equal(t, append([]string{fmt.Sprint("four", b%4)}, want...), got[14+b])
	}
}
