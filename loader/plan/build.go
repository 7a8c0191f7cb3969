package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/penstock/penstock/internal/expr"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/resolve"
)

// Files are the data files of every table of a relation, as the catalog lists
// them: by (sequence number, location).
type Files struct {
	Training []catalog.File
	Staging  [][]catalog.File
}

// Build makes the plan of a query with its defaults set. Faults of the query
// are Invalid and reported together.
func Build(r *resolve.Relation, files Files, q dataset.Query) (*Plan, error) {
	p := &Plan{
		Relation: r, Digest: r.Dataset.Digest(), Order: q.Order, Shuffle: q.Shuffle, Seed: q.Seed, Epoch: q.Epoch,
		Pin: dataset.Pin{Training: r.Training.Pin, Staging: map[string]dataset.TablePin{}},
	}
	for _, s := range r.Staging {
		p.Pin.Staging[s.Name] = s.Pinned.Pin
	}
	if err := p.bindFilter(q.Filter); err != nil {
		return nil, err
	}
	p.Inexact = p.inexact()
	if err := p.match(files); err != nil {
		return nil, err
	}
	groups, err := p.group(files.Training)
	if err != nil {
		return nil, err
	}
	p.Splits = p.prune(cut(groups))
	p.sort()
	p.deal(q.Lanes)
	p.ID = p.identity()
	return p, nil
}

// Filters returns the columns of the training table that the dataset's and a
// query's filters name: what Files must carry ranges for.
func Filters(r *resolve.Relation, query string) ([]string, error) {
	p := &Plan{Relation: r}
	if err := p.bindFilter(query); err != nil || p.Filter == nil {
		return nil, err
	}
	return p.Filter.Columns(), nil
}

func (p *Plan) bindFilter(query string) error {
	r := p.Relation
	p.Filter = r.Filter
	if query == "" {
		return nil
	}
	if err := p.onlyTraining(query); err != nil {
		return err
	}
	f, err := resolve.BindFilter(query, r.Training, "filter")
	if err != nil {
		return err
	}
	p.QueryFilter, p.Filter = f.String(), f
	if r.Filter == nil {
		return nil
	}
	ours, err := expr.Parse(r.Dataset.Training.Filter)
	if err != nil {
		return err
	}
	theirs, err := expr.Parse(query)
	if err != nil {
		return err
	}
	p.Filter, err = expr.And(ours, theirs).Bind(r.Training.Schema())
	return err
}

// onlyTraining refuses a query filter that names staging columns, with words
// better than "no such column".
func (p *Plan) onlyTraining(query string) error {
	parsed, err := expr.Parse(query)
	if err != nil {
		return nil //nolint:nilerr // BindFilter reports it with its position
	}
	for _, name := range parsed.Columns() {
		if _, ok := p.Relation.Training.Field(name); ok {
			continue
		}
		for _, o := range p.Relation.Outputs {
			if o.Name == name && o.Level != resolve.TrainingLevel {
				return fault.InvalidField("filter", "column %q comes from staging table %s; filters over staging columns are not served by this version",
					name, p.Relation.Staging[o.Level].Name)
			}
		}
	}
	return nil
}

// inexact says why rows may be dropped between the manifests and the stream.
func (p *Plan) inexact() string {
	if p.Filter != nil {
		return "a filter drops rows: " + p.Filter.String()
	}
	for _, s := range p.Relation.Staging {
		if s.Join == dataset.Inner {
			return "an inner join drops rows: " + s.Name
		}
	}
	return ""
}

// match finds, for every staging table, the key that both sides are bucketed
// on and the residue classes of its files.
func (p *Plan) match(files Files) error {
	training := p.Relation.Training
	for i, s := range p.Relation.Staging {
		kept, pruned := files.Staging[i], 0
		if s.Rows != nil {
			kept = slices.DeleteFunc(slices.Clone(kept), func(f catalog.File) bool { return !mayMatch(s.Rows, s.Pinned, f) })
			pruned = len(files.Staging[i]) - len(kept)
		}
		staging := Staging{Pruned: pruned, Classes: resolve.Classes{Modulus: 1, Files: [][]catalog.File{nil}}}
		if len(files.Training) > 0 && len(files.Staging[i]) > 0 {
			key, err := resolve.BucketKey(training, files.Training, s, files.Staging[i])
			if err != nil {
				return fault.Op(err, "plan staging[%d] %s", i, s.Name)
			}
			n, _ := resolve.BucketOf(training, files.Training[0], key.Training.ID)
			staging.Key, staging.Classes = key, resolve.Match(s.Pinned, kept, key.Staging, n.Of)
		}
		p.Staging = append(p.Staging, staging)
	}
	return nil
}

// mayMatch says whether any row of a file can pass a filter of its table.
func mayMatch(filter *expr.Filter, t *catalog.Table, f catalog.File) bool {
	return filter.MayMatch(func(column string) (expr.Range, bool) {
		field, _ := t.Field(column)
		r, ok := f.Ranges[field.ID]
		return r, ok
	})
}

// group is the training files of one bucket of one partition.
type group struct {
	partition []any
	bucket    resolve.Bucket
	classes   []int
	files     []catalog.File
}

// group divides the training files by partition values and bucket, and finds
// the class of each group in every staging table.
func (p *Plan) group(files []catalog.File) ([]*group, error) {
	t := p.Relation.Training
	var groups []*group
	at := map[string]*group{}
	for _, f := range files {
		if f.Spec != files[0].Spec {
			return nil, fault.New(fault.Invalid, "training table %s has files of partition specs %d and %d; several specs in a training table are not served by this version",
				t.Name, files[0].Spec, f.Spec).In(t.Name, f.Location).
				WithRemedy("rewrite the older files with the current spec")
		}
		id := partitionText(f.Partition)
		g := at[id]
		if g == nil {
			g = p.newGroup(f)
			at[id] = g
			groups = append(groups, g)
		}
		g.files = append(g.files, f)
	}
	return groups, nil
}

func (p *Plan) newGroup(f catalog.File) *group {
	t := p.Relation.Training
	g := &group{partition: f.Partition}
	if i := p.bucketField(f.Spec); i >= 0 {
		g.bucket, _ = resolve.BucketOf(t, f, t.Specs[f.Spec][i].Source)
		g.partition = slices.Concat(f.Partition[:i:i], f.Partition[i+1:])
	}
	for _, s := range p.Staging {
		class := resolve.NoClass
		if s.Key.Training.ID != 0 {
			b, _ := resolve.BucketOf(t, f, s.Key.Training.ID)
			class = s.Classes.Of(b)
		}
		g.classes = append(g.classes, class)
	}
	return g
}

// bucketField returns the index of the partition field that orders splits:
// the bucket of the dataset's first key column that is bucketed, or the first
// bucket of the spec; -1 if there is none. It must not depend on the staging
// tables, so that an experiment with a feature reads the same order as one
// without it.
func (p *Plan) bucketField(spec int) int {
	t := p.Relation.Training
	for _, name := range p.Relation.Dataset.Key {
		field, _ := t.Field(name)
		for i, f := range t.Specs[spec] {
			if f.Source == field.ID && f.Transform.Kind == catalog.Bucket {
				return i
			}
		}
	}
	return slices.IndexFunc(t.Specs[spec], func(f catalog.PartitionField) bool { return f.Transform.Kind == catalog.Bucket })
}

// cut divides the rows of each group into splits of SplitRows, in the order
// of its files, within a file where need be.
func cut(groups []*group) []Split {
	var splits []Split
	for _, g := range groups {
		open := Split{Partition: g.partition, Bucket: g.bucket, Classes: g.classes}
		for _, f := range g.files {
			for from := int64(0); from < f.Rows; {
				to := min(f.Rows, from+SplitRows-open.Rows)
				open.Files = append(open.Files, FileRange{File: f, From: from, To: to})
				open.Rows += to - from
				from = to
				if open.Rows == SplitRows {
					splits = append(splits, open)
					open.Files, open.Rows = nil, 0
				}
			}
		}
		if open.Rows > 0 {
			splits = append(splits, open)
		}
	}
	for i := range splits {
		splits[i].ID = splitID(splits[i].Files)
	}
	return splits
}

func splitID(files []FileRange) string {
	var text strings.Builder
	for _, f := range files {
		fmt.Fprintf(&text, "%q %d %d\n", f.File.Location, f.From, f.To)
	}
	sum := sha256.Sum256([]byte(text.String()))
	return hex.EncodeToString(sum[:8])
}

// prune marks the files in which no row can pass the filter, and drops the
// splits that have no other.
func (p *Plan) prune(splits []Split) []Split {
	if p.Filter == nil {
		return splits
	}
	return slices.DeleteFunc(splits, func(s Split) bool {
		pruned := 0
		for i, f := range s.Files {
			if !mayMatch(p.Filter, p.Relation.Training, f.File) {
				s.Files[i].Pruned = true
				pruned++
				p.Pruned.Rows += f.To - f.From
			}
		}
		p.Pruned.Files += pruned
		if pruned < len(s.Files) {
			return false
		}
		p.Pruned.Splits++
		return true
	})
}

// identity hashes all that the plan depends on, and what came out of it, so
// that two servers that disagree are found out before a row is sent.
func (p *Plan) identity() string {
	var text strings.Builder
	pin, _ := json.Marshal(p.Pin) //nolint:errchkjson // strings and numbers alone
	fmt.Fprintf(&text, "algorithm %d\ndataset %s\npin %s\nfilter %q\norder %s %s %d %d\nlanes %d\n",
		Algorithm, p.Digest, pin, p.QueryFilter, p.Order, p.Shuffle, p.Seed, p.Epoch, len(p.Lanes))
	for _, l := range p.Lanes {
		for _, piece := range l.Pieces {
			fmt.Fprintf(&text, "%s %d %d %v\n", p.Splits[piece.Split].ID, piece.From, piece.To, p.Splits[piece.Split].Classes)
		}
		fmt.Fprintln(&text)
	}
	for _, s := range p.Staging {
		for _, class := range s.Classes.Files {
			for _, f := range class {
				fmt.Fprintf(&text, "%q\n", f.Location)
			}
			fmt.Fprintln(&text)
		}
	}
	sum := sha256.Sum256([]byte(text.String()))
	return hex.EncodeToString(sum[:16])
}
