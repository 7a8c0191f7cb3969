package drift

import (
	"slices"

	"github.com/penstock/penstock/internal/stats"
)

// maxForms is the maximum number of frequent forms of each side.
const maxForms = 10

// formFloor returns the floor for the share of a form: half of the share, but at least 1 % and at most 5 % of the texts. Forms of free
// texts change more than other shares.
func formFloor(base float64) float64 { return max(shareFloor(base), leastShare) }

// mostly is the greatest share of the frequent values of the base: with a greater one, these say more than forms do, unless there is a
// limit of forms.
const mostly = 0.5

// forms compares the shares of the forms that are frequent on one side at least, and adds the change that says most.
func (c *comparing) forms() {
	frequent := int64(0)
	for _, f := range c.base.Frequent(leastShare) {
		frequent += f.Count
	}
	if c.limits == nil && float64(frequent) > mostly*float64(c.base.Sampled()) {
		return
	}
	width := c.base.UsualWidth()
	base, of := c.base.Forms(width), c.of.Forms(width)
	n, m := total(base), total(of)
	var worst *Change
	for _, form := range frequentForms(base, n, of, m) {
		before := portionOf(countOf(base, form), n, c.base.IndependentSample())
		after := portionOf(countOf(of, form), m, c.of.IndependentSample())
		change, ok := c.difference(Form, form.String(), before, after, formFloor)
		if !ok {
			continue
		}
		if worst == nil || saysMore(change, *worst) {
			worst = &change
		}
	}
	if worst != nil {
		c.add(*worst)
	}
}

// saysMore reports whether a change of a form says more than another one: a form that has become too frequent names the cause, and a form
// that has become rare does not. Otherwise, the change that is farther beyond its limit says more.
func saysMore(a, b Change) bool {
	if more := a.Change > 0 && a.beyond(); more != (b.Change > 0 && b.beyond()) {
		return more
	}
	return a.Excess() > b.Excess()
}

// frequentForms returns the forms that are frequent on one side at least, of n and m texts.
func frequentForms(base []stats.FormCount, n int64, of []stats.FormCount, m int64) (out []stats.Form) {
	for _, side := range []struct {
		forms []stats.FormCount
		all   int64
	}{{base, n}, {of, m}} {
		for _, f := range side.forms[:min(len(side.forms), maxForms)] {
			if float64(f.Count) >= leastShare*float64(side.all) && !slices.Contains(out, f.Form) {
				out = append(out, f.Form)
			}
		}
	}
	return out
}

// total returns the number of texts that are not empty.
func total(forms []stats.FormCount) (n int64) {
	for _, f := range forms {
		n += f.Count
	}
	return n
}

func countOf(forms []stats.FormCount, form stats.Form) int64 {
	at := slices.IndexFunc(forms, func(f stats.FormCount) bool { return f.Form == form })
	if at < 0 {
		return 0
	}
	return forms[at].Count
}
