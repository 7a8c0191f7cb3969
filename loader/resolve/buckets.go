package resolve

import (
	"slices"

	"github.com/penstock/penstock/internal/bucket"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
)

// Bucket is one value of Iceberg's bucket transform: ID of Of, or NullBucket.
type Bucket struct {
	ID int
	Of int
}

// NullBucket is the ID of the bucket that holds null keys.
const NullBucket = -1

// BucketOf returns the bucket of a file on a column, by the file's own
// partition spec; false if that spec does not bucket the column.
func BucketOf(t *catalog.Table, f catalog.File, column int) (Bucket, bool) {
	for i, p := range t.Specs[f.Spec] {
		if p.Source != column || p.Transform.Kind != catalog.Bucket {
			continue
		}
		if id, ok := f.Partition[i].(int64); ok {
			return Bucket{ID: int(id), Of: p.Transform.N}, true
		}
		return Bucket{ID: NullBucket, Of: p.Transform.N}, true
	}
	return Bucket{}, false
}

// BucketKey chooses the pair of the join key on which every file of both
// tables is bucketed. None is Invalid, and names a file that is not.
func BucketKey(training *catalog.Table, trainingFiles []catalog.File, s Staging, stagingFiles []catalog.File) (Key, error) {
	var culprit catalog.File
	var table *catalog.Table
	for _, k := range s.Keys {
		f, ok := unbucketed(training, trainingFiles, k.Training.ID)
		if ok {
			culprit, table = f, training
			continue
		}
		f, ok = unbucketed(s.Pinned, stagingFiles, k.Staging.ID)
		if ok {
			culprit, table = f, s.Pinned
			continue
		}
		return k, nil
	}
	key := s.Keys[0].Training.Name
	if table == s.Pinned {
		key = s.Keys[0].Staging.Name
	}
	return Key{}, fault.New(fault.Invalid,
		"buckets of %s and %s cannot be matched: %s holds a file that is not bucketed on the key", training.Name, s.Pinned.Name, table.Name).
		In(table.Name, culprit.Location).
		WithRemedy("partition %s by bucket(n, %s) and rewrite its files; tables of other layouts are not served by this version", table.Name, key)
}

func unbucketed(t *catalog.Table, files []catalog.File, column int) (catalog.File, bool) {
	i := slices.IndexFunc(files, func(f catalog.File) bool {
		_, ok := BucketOf(t, f, column)
		return !ok
	})
	if i < 0 {
		return catalog.File{}, false
	}
	return files[i], true
}

// Classes are the files of one staging table by residue class: a training
// bucket b needs exactly the files of class b mod Modulus, and all training
// buckets of one class need the same ones.
type Classes struct {
	Modulus int
	Files   [][]catalog.File // per residue, in the catalog's order
}

// NoClass is the class of the null bucket: nothing matches it.
const NoClass = -1

// Match divides staging files into the residue classes of n training buckets
// on key. With one staging bucket count m there are gcd(n, m) classes and
// every file is in one. Files of several counts m1, m2 … give lcm(gcd(n, m1),
// gcd(n, m2), …) classes, and a file is in each that can ask for it. Files of
// the null bucket are in none.
func Match(t *catalog.Table, files []catalog.File, key catalog.Field, n int) Classes {
	modulus := 1
	for _, f := range files {
		b, _ := BucketOf(t, f, key.ID)
		g := bucket.Overlap(n, b.Of)
		modulus = modulus / bucket.Overlap(modulus, g) * g
	}
	c := Classes{Modulus: modulus, Files: make([][]catalog.File, modulus)}
	for _, f := range files {
		b, _ := BucketOf(t, f, key.ID)
		if b.ID == NullBucket {
			continue
		}
		g := bucket.Overlap(n, b.Of)
		for r := b.ID % g; r < modulus; r += g {
			c.Files[r] = append(c.Files[r], f)
		}
	}
	return c
}

// Of returns the class of a training bucket.
func (c Classes) Of(b Bucket) int {
	if b.ID == NullBucket {
		return NoClass
	}
	return b.ID % c.Modulus
}
