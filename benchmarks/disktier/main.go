// This program compares decoding column chunks from Parquet with reading them from the disk
// tier of the cache: CPU seconds and wall time per GB of decoded arrays, column by column.
//
//	go run ./benchmarks/disktier [-rounds 5] [-cold] FILE.parquet...
//
// The phases of a round alternate, and are of the same chunks. -cold drops the read files from the
// page cache first. It also compresses each chunk's file with zstd and lz4, to show what that
// would gain.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"github.com/penstock/penstock/cache/disk"
	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/parquet"
	"github.com/penstock/penstock/internal/store"
)

func main() {
	rounds, cold := flag.Int("rounds", 5, "rounds"), flag.Bool("cold", false, "drop the files from the page cache before each read")
	flag.Parse()
	if err := run(*rounds, *cold, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// chunk is one column of one file.
type chunk struct {
	name  string
	id    disk.ColumnID
	field arrow.Field
	path  string // of the Parquet file
	size  int64
	rows  int64
	bytes int64 // decoded

	phases map[string][]used // by name
	stored map[string]int64  // bytes by form
}

// used is what one phase took.
type used struct{ cpu, wall float64 }

func since(cpu float64, wall time.Time) used {
	return used{cpuSeconds() - cpu, time.Since(wall).Seconds()}
}

func cpuSeconds() float64 {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// bench runs all phases.
type bench struct {
	memory  *batch.Pool
	budget  *budget.Budget
	files   store.Store
	calls   *store.Calls
	folder  string
	cold    bool
	chunks  []*chunk
	footers map[string]*parquet.Footer
}

func run(rounds int, cold bool, paths []string) error {
	folder, err := os.MkdirTemp("", "disktier")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder) //nolint:errcheck // a temporary folder
	calls := store.NewCalls(store.Options{Timeout: time.Minute})
	b := &bench{
		memory: &batch.Pool{}, budget: budget.New(4 << 30), calls: calls, folder: folder, cold: cold,
		files: store.NewBounded(store.Local{}, calls), footers: map[string]*parquet.Footer{},
	}
	for _, path := range paths {
		if err := b.find(path); err != nil {
			return err
		}
	}
	for round := range rounds {
		if err := b.round(round); err != nil {
			return err
		}
	}
	b.report()
	return nil
}

// find adds the columns of a file.
func (b *bench) find(path string) error {
	f, err := file.OpenParquetFile(path, false)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // it was only read
	sc, err := pqarrow.FromParquet(f.MetaData().Schema, nil, f.MetaData().KeyValueMetadata())
	if err != nil {
		return err
	}
	stat, err := os.Stat(path)
	if err != nil {
		return err
	}
	object, err := b.files.Open(context.Background(), path, store.SizeUnknown)
	if err != nil {
		return err
	}
	defer object.Close() //nolint:errcheck // it was only read
	if b.footers[path], err = parquet.ReadFooter(context.Background(), object, parquet.FooterLimits{}); err != nil {
		return err
	}
	for _, field := range sc.Fields() {
		text, _ := field.Metadata.GetValue("PARQUET:field_id")
		id, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("%s: column %s has no field id", path, field.Name)
		}
		b.chunks = append(b.chunks, &chunk{
			name: field.Name, field: field, path: path, size: stat.Size(), phases: map[string][]used{}, stored: map[string]int64{},
			id: disk.ColumnID{Table: "bench", File: filepath.Base(path), FileSize: stat.Size(), Field: id, Type: field.Type.String()},
		})
	}
	return nil
}

// round runs each phase once for each chunk, with a tier of its own.
func (b *bench) round(number int) error {
	ctx := context.Background()
	tier, err := disk.Open(ctx, disk.Options{
		Folder: filepath.Join(b.folder, strconv.Itoa(number)), Limit: 1 << 40, Queue: 1 << 40, Calls: b.calls, Memory: b.memory, Clock: time.Now,
	})
	if err != nil {
		return err
	}
	defer tier.Close(ctx)
	for _, c := range b.chunks {
		if err := b.one(ctx, tier, c); err != nil {
			return fmt.Errorf("%s of %s: %w", c.name, c.path, err)
		}
	}
	return nil
}

// one decodes, writes and reads one chunk.
func (b *bench) one(ctx context.Context, tier *disk.Tier, c *chunk) error {
	if b.cold {
		evict(c.path)
	}
	cpu, wall := cpuSeconds(), time.Now()
	arrays, err := b.decode(ctx, c)
	if err != nil {
		return err
	}
	c.phases["decode"] = append(c.phases["decode"], since(cpu, wall))
	c.bytes, c.rows = batch.ArraySize(arrays...), 0
	for _, a := range arrays {
		c.rows += int64(a.Len())
	}
	before := tier.Stats().Writes
	cpu, wall = cpuSeconds(), time.Now()
	done := make(chan struct{})
	tier.Put(disk.Offer{ID: c.id, Arrays: arrays, Cost: 1, Done: func() { close(done) }})
	<-done
	c.phases["write"] = append(c.phases["write"], since(cpu, wall))
	after := tier.Stats().Writes
	if after.Chunks != before.Chunks+1 {
		return fmt.Errorf("it was not written: %+v", after)
	}
	c.stored["tier"] = after.Bytes - before.Bytes
	for _, a := range arrays {
		a.Release()
	}
	path := filepath.Join(b.folder, "*", c.id.Key().String()+"*")
	if b.cold {
		evict(path)
	}
	cpu, wall = cpuSeconds(), time.Now()
	got, ok := tier.Get(ctx, c.id, disk.WantedChunk{
		Types: []arrow.DataType{c.field.Type}, Rows: c.rows,
		Reserve: func(n int64) (*budget.Reservation, error) { return b.budget.Reserve("a chunk", n) },
	})
	if !ok {
		return fmt.Errorf("it was not read: %+v", tier.Stats().Reads)
	}
	c.phases["read"] = append(c.phases["read"], since(cpu, wall))
	got.Release()
	return c.compress(path)
}

// decode decodes a chunk from Parquet, as a scan does for one column.
func (b *bench) decode(ctx context.Context, c *chunk) (out []arrow.Array, err error) {
	object, err := b.files.Open(ctx, c.path, c.size)
	if err != nil {
		return nil, err
	}
	defer object.Close() //nolint:errcheck // it was only read
	f, err := parquet.Open(ctx, object, parquet.Options{Footer: b.footers[c.path]})
	if err != nil {
		return nil, err
	}
	r, err := f.Read(ctx, parquet.ReadOptions{
		Fields: []int{c.id.Field}, Schema: arrow.NewSchema([]arrow.Field{c.field}, nil), BatchRows: 8192, Memory: b.memory, Scratch: b.memory,
	})
	if err != nil {
		return nil, err
	}
	defer r.Release()
	for r.Next() { //nolint:contextcheck // the reader has ctx since Read
		a := r.RecordBatch().Column(0)
		a.Retain()
		out = append(out, a)
	}
	return out, r.Err()
}

// evict drops files from the page cache.
func evict(pattern string) {
	paths, _ := filepath.Glob(pattern)
	for _, path := range paths {
		if f, err := os.OpenFile(path, os.O_RDWR, 0); err == nil {
			_ = f.Sync()
			dropPages(f)
			_ = f.Close()
		}
	}
}

// report prints a table of medians by column, summed over files.
func (b *bench) report() {
	phases := []string{"decode", "write", "read", "zstd", "unzstd", "lz4", "unlz4"}
	names := []string{}
	for _, c := range b.chunks {
		if !slices.Contains(names, c.name) {
			names = append(names, c.name)
		}
	}
	fmt.Println("| column | decoded MB | Parquet decode, CPU s/GB | tier write | tier read | read / decode | decode MB/s | write MB/s | read MB/s | zstd: size | zstd: CPU s/GB to write | to read | lz4: size | to write | to read |")
	fmt.Println("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
	for _, name := range append(names, "all") {
		sum, bytes, stored := map[string]used{}, 0.0, map[string]float64{}
		for _, c := range b.chunks {
			if name != "all" && c.name != name {
				continue
			}
			bytes += float64(c.bytes)
			for form, n := range c.stored {
				stored[form] += float64(n)
			}
			for _, p := range phases {
				m := c.median(p)
				sum[p] = used{sum[p].cpu + m.cpu, sum[p].wall + m.wall}
			}
		}
		cpu := func(p string) float64 { return sum[p].cpu / bytes * 1e9 }
		rate := func(p string) float64 { return bytes / sum[p].wall / 1e6 }
		fmt.Printf("| %s | %.1f | %.2f | %.2f | %.2f | %.2f | %.0f | %.0f | %.0f | %.2f | %.2f | %.2f | %.2f | %.2f | %.2f |\n", name, bytes/1e6, cpu("decode"), cpu("write"), cpu("read"),
			sum["read"].cpu/sum["decode"].cpu, rate("decode"), rate("write"), rate("read"),
			stored["zstd"]/stored["tier"], cpu("zstd"), cpu("unzstd"), stored["lz4"]/stored["tier"], cpu("lz4"), cpu("unlz4"))
	}
}

// median returns the medians of a phase.
func (c *chunk) median(phase string) used {
	var cpu, wall []float64
	for _, u := range c.phases[phase] {
		cpu, wall = append(cpu, u.cpu), append(wall, u.wall)
	}
	slices.Sort(cpu)
	slices.Sort(wall)
	return used{cpu[len(cpu)/2], wall[len(wall)/2]}
}
