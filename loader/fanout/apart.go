package fanout

const (
	// minApart is the minimum number of steps for which a member stays apart after its group's
	// reader has failed.
	minApart = 16
	// maxApart is the maximum number of steps for which a member stays apart.
	maxApart = 256
)

// apartness says for how many more steps a member stays apart, after it has left a group that did
// not help it. While a member stays apart, it shares steps only with streams that need the same
// columns and batch sizes, and does not look for another group.
type apartness struct{ steps, next int64 }

// leave sets for how many steps a member stays apart after it has left a group. Without this, a
// member that falls behind again and again would join another group at its next step each time, and
// so would a member whose group's reader fails while it reads more than the member needs. Each
// time, a reader would be opened.
func (a *apartness) leave(why Reason) {
	switch why {
	case Behind:
		a.steps, a.next = a.next, min(max(2, 2*a.next), maxApart)
	case Failing:
		a.next = min(max(minApart, 2*a.next), maxApart)
		a.steps = a.next
	case Parked, Limited, Skipped, Form, Crowded, Lacking:
	}
}

// passed counts a step that the member has passed.
func (a *apartness) passed() { a.steps = max(0, a.steps-1) }
