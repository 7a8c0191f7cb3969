package decode

import (
	"regexp"
	"slices"
	"strings"

	"github.com/penstock/penstock/internal/fitted"
	"github.com/penstock/penstock/loader/dataset"
)

// maxFitted is the maximum number of fitted lists of a dataset.
const maxFitted = 1000

// maxPath is the maximum length of the path of a file, in bytes.
const maxPath = 4096

var fileDigest = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// readFitted decodes the fitted lists of a dataset.
func readFitted(d *decoder, at place) []dataset.Fitted {
	if at.kind == kindObject && len(at.members) > maxFitted {
		d.fail(at.path, "must have at most %d lists, not %d", maxFitted, len(at.members))
		return nil
	}
	out := entries(d, at, readFittedList)
	slices.SortFunc(out, func(a, b dataset.Fitted) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func readFittedList(d *decoder, name string, at place) dataset.Fitted {
	out := dataset.Fitted{Name: name}
	if name == "" || len(name) > maxName || strings.ContainsFunc(name, isControl) {
		d.fail(at.path, "the name of a list has 1 to %d bytes and no control characters", maxName)
	}
	object(d, at, &out, []field[dataset.Fitted]{
		{name: "file", also: []string{"path"}, must: true, read: func(d *decoder, at place, out *dataset.Fitted) { out.File = d.short(at, maxPath) }},
		{name: "digest", also: []string{"sha256", "checksum", "hash"}, must: true, read: func(d *decoder, at place, out *dataset.Fitted) {
			if out.Digest = d.text(at); at.kind == kindText && !fileDigest.MatchString(out.Digest) {
				d.fail(at.path, "must be sha256: with 64 hexadecimal digits in lower case, as `penstock fit` prints it")
			}
		}},
		{name: "column", read: func(d *decoder, at place, out *dataset.Fitted) { out.Column = d.name(at) }},
		{name: "kind", read: func(d *decoder, at place, out *dataset.Fitted) { out.Kind = word(d, at, fitted.Kinds()) }},
	})
	return out
}
