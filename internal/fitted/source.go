package fitted

import (
	"cmp"
	"errors"
	"io"
	"os"
	"runtime"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/expr"
	"github.com/penstock/penstock/internal/fault"
)

// Source reads lists from files. It charges their memory to a budget until no dataset, plan or stream
// uses them. It is not safe for concurrent use.
type Source struct {
	budget *budget.Budget
	known  map[Want]*expr.List // of the last call of Read that succeeded, by the digests of their files
}

// NewSource returns a source. A nil budget has no limit.
func NewSource(b *budget.Budget) *Source { return &Source{budget: b} }

// Want says which list of which file to read.
type Want struct {
	Digest string // of the file
	Column string // "": any
	Kind   Kind   // "": any
}

// Read reads lists of files, each file once. The lists of wants are returned in the same order. Lists of
// the call before are used again if their files have the same digest. If a list cannot be read, Read
// returns its position and an error, which is Invalid if the file is missing, too large, of another form
// or has another digest, and Exhausted if the budget has no memory for the list.
func (s *Source) Read(paths []string, wants []Want) (_ []*expr.List, failed int, _ error) {
	out, known := make([]*expr.List, len(wants)), map[Want]*expr.List{}
	for i, path := range paths {
		if out[i] != nil {
			continue
		}
		if failed, err := s.readFile(path, paths, wants, known, out); err != nil {
			return nil, max(failed, i), err
		}
	}
	s.known = known
	return out, 0, nil
}

// readFile sets the lists of one file in out, in their order. If one cannot be read, it returns its position.
func (s *Source) readFile(path string, paths []string, wants []Want, known map[Want]*expr.List, out []*expr.List) (failed int, _ error) {
	held, err := s.budget.Reserve("the file "+path, 0)
	if err != nil {
		return 0, err
	}
	defer held.Release()
	content, err := readAll(path, held)
	if err != nil {
		return 0, err
	}
	digest := Digest(content)
	var lists []written
	for i, want := range wants {
		if paths[i] != path {
			continue
		}
		if want.Digest != digest {
			return i, fault.New(fault.Invalid, "%s has the digest %s instead of %s", path, digest, want.Digest).In("", path).
				WithRemedy("restore the file, or accept its values with digest: %s", digest)
		}
		list := cmp.Or(known[want], s.known[want])
		if list == nil && lists == nil {
			if lists, err = parse(content); err != nil {
				return i, fault.As(err).In("", path)
			}
		}
		if list == nil {
			if list, err = s.build(lists, want); err != nil {
				return i, fault.As(err).In("", path)
			}
		}
		known[want], out[i] = list, list
	}
	return 0, nil
}

// build makes a list, and charges it until it is garbage.
func (s *Source) build(lists []written, want Want) (*expr.List, error) {
	of, err := choose(lists, want.Column, want.Kind)
	if err != nil {
		return nil, err
	}
	held, err := s.budget.Reserve("the "+of.kind.String()+" of column "+of.column, 0)
	if err != nil {
		return nil, err
	}
	list, err := of.read(held)
	if err != nil {
		held.Release()
		return nil, err
	}
	runtime.AddCleanup(list, (*budget.Reservation).Release, held)
	return list, nil
}

// readAll reads a file, and charges its size to held.
func readAll(path string, held *budget.Reservation) ([]byte, error) {
	failed := func(err error) error {
		return fault.New(fault.Invalid, "read the file of a fitted list: %w", err).In("", path).WithRemedy("restore the file, or write it again with penstock fit")
	}
	stat, err := os.Stat(path)
	if err != nil {
		return nil, failed(err)
	}
	if !stat.Mode().IsRegular() { // opening it could block
		return nil, fault.New(fault.Invalid, "the file of a fitted list, %s, is not a regular file", path).In("", path).WithRemedy("name a file that penstock fit wrote")
	}
	if stat.Size() > MaxFile {
		return nil, tooLarge(path)
	}
	if err := held.Grow(stat.Size() + 1); err != nil {
		return nil, fault.Op(err, "read %s", path)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, failed(err)
	}
	defer file.Close() //nolint:errcheck // it was only read
	content := make([]byte, stat.Size()+1)
	switch n, err := io.ReadFull(file, content); {
	case err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF):
		return nil, failed(err)
	case n != int(stat.Size()):
		return nil, fault.New(fault.Invalid, "the size of %s changed while it was read", path).In("", path).WithRemedy("write files of lists under another name, and rename them")
	default:
		return content[:n], nil
	}
}

func tooLarge(path string) error {
	return fault.New(fault.Invalid, "the file of a fitted list, %s, has more than %d bytes", path, MaxFile).In("", path).WithRemedy("fit smaller vocabularies, or several files")
}
