package scenario

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
)

// Shape is what a random case is made of: the knobs that must not change the
// result stand apart from those that may.
type Shape struct {
	TrainingBuckets int
	StagingBuckets  []int // per staging table
	FileRows        int   // of training files; 0: one per partition and commit
	BatchRows       int   // of the scan
}

// Case is a random world with a dataset over it, and its rows as the oracle
// sees them.
type Case struct {
	*World
	Dataset  dataset.Dataset
	Training Side
	Staging  []Side
	Filter   int64 // training rows with item >= Filter count; 0: all
	Seen     Coverage
}

// Side is one table's rows in the order in which they were appended.
type Side struct {
	Fields []catalog.Field
	Rows   [][]any
}

// Coverage counts what a case holds, so that a test can assert that its cases
// held everything.
type Coverage struct {
	Duplicates, NullKeys, Missing, Inner, MixedSpecs, Filters, Partitions, TextKeys, IntWithLong, Errors, Cases int
}

// Add adds the counts of another case.
func (c *Coverage) Add(o Coverage) {
	c.Duplicates += o.Duplicates
	c.NullKeys += o.NullKeys
	c.Missing += o.Missing
	c.Inner += o.Inner
	c.MixedSpecs += o.MixedSpecs
	c.Filters += o.Filters
	c.Partitions += o.Partitions
	c.TextKeys += o.TextKeys
	c.IntWithLong += o.IntWithLong
	c.Errors += o.Errors
	c.Cases += o.Cases
}

// Random makes the case of a seed in a shape. The rows and rules depend on the
// seed and the number of staging tables alone.
func Random(seed uint64, shape Shape) (*Case, error) {
	r := rand.New(rand.NewPCG(seed, 7))
	c := &Case{World: NewWorld(), Seen: Coverage{Cases: 1}}
	c.BatchRows = shape.BatchRows
	g := generator{Rand: r, Case: c, text: r.IntN(3) == 0, keys: 1 + r.IntN(24)}
	return c, g.make(shape)
}

type generator struct {
	*rand.Rand
	*Case
	text bool // keys are strings
	keys int  // distinct keys
}

func (g *generator) make(shape Shape) error {
	if err := g.training(shape); err != nil {
		return err
	}
	for i, m := range shape.StagingBuckets {
		if err := g.staging(i, m); err != nil {
			return err
		}
	}
	if g.IntN(3) == 0 {
		g.Filter = int64(1 + g.IntN(60))
		g.Dataset.Training.Filter = fmt.Sprintf("item >= %d", g.Filter)
		g.Seen.Filters++
	}
	return nil
}

func (g *generator) key() string {
	if g.IntN(12) == 0 {
		return null
	}
	k := g.IntN(g.keys) * 7919
	if g.text {
		return fmt.Sprintf("k%d", k)
	}
	return strconv.Itoa(k)
}

func (g *generator) training(shape Shape) error {
	kind := "long"
	if g.text {
		kind = "string"
		g.Seen.TextKeys++
	}
	partitioned := g.IntN(2) == 0
	fields, err := Fields("request_id:" + kind + " day:long item:long! score:float tags:list<long>")
	if err != nil {
		return err
	}
	specText := fmt.Sprintf("bucket(%d,request_id)", shape.TrainingBuckets)
	if partitioned {
		specText = "day " + specText
		g.Seen.Partitions++
	}
	spec, err := Spec(specText, fields)
	if err != nil {
		return err
	}
	t, err := g.NewTable("ml.train", fields, spec)
	if err != nil {
		return err
	}
	g.Training.Fields = fields
	g.Dataset = dataset.Dataset{Name: "d", Key: []string{"request_id"}, Training: dataset.Training{Table: "ml.train"}}
	item := 0
	for range 1 + g.IntN(3) {
		var lines []string
		for range g.IntN(50) {
			item++
			lines = append(lines, fmt.Sprintf("%s %d %d %s %s", g.key(), g.IntN(3), item, g.maybe("0.5"), g.maybe("["+strings.Repeat("1,", g.IntN(3))+"2]")))
		}
		if err := g.add(t, 0, lines, shape.FileRows, &g.Training); err != nil {
			return err
		}
	}
	return nil
}

func (g *generator) maybe(text string) string {
	if g.IntN(5) == 0 {
		return null
	}
	return text
}

func (g *generator) staging(i, buckets int) error {
	kind := "string"
	if !g.text {
		kind = "long"
		if g.IntN(3) == 0 {
			kind = "int"
			g.Seen.IntWithLong++
		}
	}
	name := fmt.Sprintf("s%d", i)
	fields, err := Fields(fmt.Sprintf("req:%s version:long! %s_user:long %s_tags:list<long> %s_text:string", kind, name, name, name))
	if err != nil {
		return err
	}
	specs, err := g.specs(buckets, fields)
	if err != nil {
		return err
	}
	t, err := g.NewTable("features."+name, fields, specs...)
	if err != nil {
		return err
	}
	entry := dataset.Staging{
		Table: "features." + name, Name: name, Key: []dataset.KeyPair{{Training: "request_id", Staging: "req"}},
		Columns: []dataset.Column{{Column: name + "_text"}, {Column: name + "_user", Name: name + "_u"}, {Column: name + "_tags"}},
		Join:    dataset.Left, Missing: dataset.MissingNull, Duplicates: pick(g, dataset.DuplicatesFirst, dataset.DuplicatesLast, dataset.DuplicatesFirst, dataset.DuplicatesError),
	}
	if g.IntN(4) == 0 {
		entry.Join = dataset.Inner
		g.Seen.Inner++
	}
	if g.IntN(12) == 0 {
		entry.Missing = dataset.MissingError
	}
	if g.IntN(4) == 0 {
		entry.Filter = "version < 3"
	}
	side := Side{Fields: fields}
	for range 1 + g.IntN(3) {
		var lines []string
		for range g.IntN(2 * g.keys) {
			lines = append(lines, fmt.Sprintf("%s %d %s %s t%d", g.key(), g.IntN(5), g.maybe(strconv.Itoa(g.IntN(1000))), g.maybe("[3,null]"), g.IntN(100)))
		}
		if err := g.add(t, g.IntN(len(specs)), lines, g.IntN(4), &side); err != nil {
			return err
		}
	}
	g.Dataset.Staging = append(g.Dataset.Staging, entry)
	g.Staging = append(g.Staging, side)
	return nil
}

// specs gives one partition spec, or, now and then, a second one with twice
// the buckets, as spec evolution leaves them.
func (g *generator) specs(buckets int, fields []catalog.Field) ([]catalog.Spec, error) {
	texts := []string{fmt.Sprintf("bucket(%d,req)", buckets)}
	if g.IntN(4) == 0 {
		texts = append(texts, fmt.Sprintf("bucket(%d,req)", 2*buckets))
		g.Seen.MixedSpecs++
	}
	var specs []catalog.Spec
	for _, text := range texts {
		spec, err := Spec(text, fields)
		if err != nil {
			return nil, err
		}
		specs = append(specs, spec)
	}
	return specs, nil
}

func pick[T any](g *generator, choices ...T) T { return choices[g.IntN(len(choices))] }

// add commits lines and remembers their rows in the order in which a reader
// of staging meets equal keys: by file, then position, which is the order of
// the lines for equal keys, since these share their file.
func (g *generator) add(t *catalog.Table, spec int, lines []string, fileRows int, side *Side) error {
	rows, err := Rows(t.Fields, lines)
	if err != nil {
		return err
	}
	defer rows.Release()
	side.Rows = append(side.Rows, Values(rows)...)
	if rows.NumRows() == 0 {
		return nil
	}
	return g.Append(t, spec, rows, fileRows)
}

// Loader returns a loader over the case.
func (c *Case) Loader() *loader.Loader {
	return loader.New(loader.Options{Datasets: []dataset.Dataset{c.Dataset}, Catalog: c.World, Scan: c.Scan})
}

// Schema returns the training columns as an Arrow schema.
func (s Side) Schema() *arrow.Schema { return (&catalog.Table{Fields: s.Fields}).Schema() }
