package maintenance

import (
	"context"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/loader/catalog"
)

// dataFileNames has the names of data files in files of position deletes, by the location of the
// delete file. Since files never change, each delete file is read only once in a call.
type dataFileNames struct {
	mu   sync.Mutex
	of   map[string]map[string]bool
	held *budget.Reservation
}

// nameBytes is the memory of a name besides its text.
const nameBytes = 64

// holdNames opens the reservation for the names.
func (c *compacting) holdNames(ctx context.Context) (err error) {
	c.names.of = map[string]map[string]bool{}
	c.names.held, err = c.options.Rows.Budget.ReserveFor(ctx, "names in delete files of table "+c.request.Table, 0)
	return err
}

// dropOthersDeletes drops a file's position deletes that name only other files of its partition,
// since they delete none of its rows. Otherwise each call would rewrite the file while another file
// has deletes in the same delete file.
func (g *compactGroup) dropOthersDeletes(ctx context.Context, chosen *partitionChoice) error {
	if err := g.readNames(ctx, chosen); err != nil {
		return err
	}
	g.listed = map[string]catalog.Deletes{}
	for i, f := range g.files {
		if !chosen.has(f) {
			continue
		}
		named := slices.DeleteFunc(slices.Clone(f.Deletes.Positions), func(d *catalog.DeleteFile) bool {
			return d.Data == "" && !g.names.of[d.Location][f.Location]
		})
		if len(named) < len(f.Deletes.Positions) {
			g.listed[f.Location] = f.Deletes
			g.files[i].Deletes.Positions = named
		}
	}
	return nil
}

// readNames reads the names in delete files that may apply to several files.
func (g *compactGroup) readNames(ctx context.Context, chosen *partitionChoice) error {
	wanted := map[string]*catalog.DeleteFile{}
	for _, f := range g.files {
		for _, d := range f.Deletes.Positions {
			if d.Data == "" && g.names.of[d.Location] == nil && chosen.has(f) {
				wanted[d.Location] = d
			}
		}
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(g.options.Rows.Threads)
	for _, d := range wanted {
		if groupCtx.Err() != nil {
			break
		}
		group.Go(func() error {
			names, err := g.options.Named(groupCtx, g.read, d)
			if err != nil {
				return err
			}
			return g.names.add(d.Location, names)
		})
	}
	return group.Wait()
}

// add adds the names in a delete file.
func (n *dataFileNames) add(location string, names []string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	bytes, set := int64(0), make(map[string]bool, len(names))
	for _, name := range names {
		bytes, set[name] = bytes+int64(len(name))+nameBytes, true
	}
	if err := n.held.Grow(bytes); err != nil {
		return err
	}
	n.of[location] = set
	return nil
}
