package ui

import (
	"html/template"

	"github.com/penstock/penstock/cmd/penstock/planpicture"
	"github.com/penstock/penstock/flight"
	"github.com/penstock/penstock/internal/svg"
)

// planShape shows how the rows of a plan are spread, and what streams matched.
type planShape struct {
	Pictures []picture
	Tables   []planpicture.Table
	Small    string // which files are small
	Rates    []template.HTML
	Changes  []rateChange
}

// picture is a chart.
type picture struct {
	Caption string
	Picture template.HTML
}

// rateChange says how the match rate of an entry changed.
type rateChange struct {
	Entry, Now, At, Then, ThenAt string
	Fell                         bool
}

func newPlanShape(of flight.PlanShape) planShape {
	out := planShape{Tables: planpicture.Tables(of.Shape), Small: planpicture.Small()}
	for _, one := range planpicture.Spread(of.Shape) {
		out.Pictures = append(out.Pictures, picture{one.Caption, inline(one.Picture)})
	}
	trend := planpicture.Rates(of.Runs)
	for _, one := range trend.Pictures {
		out.Rates = append(out.Rates, inline(one.Picture))
	}
	for _, c := range trend.Changes {
		change := rateChange{Entry: c.Entry, Now: svg.Percent(c.Now), At: moment(c.NowTime), Fell: c.Fell}
		if !c.ThenTime.IsZero() {
			change.Then, change.ThenAt = svg.Percent(c.Then), moment(c.ThenTime)
		}
		out.Changes = append(out.Changes, change)
	}
	return out
}
