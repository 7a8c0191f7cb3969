package fanout

const (
	// minApart is the number of steps that a member stays apart when a reader has failed.
	minApart = 16
	// maxApart bounds the steps that a member stays apart.
	maxApart = 256
)

// apartness is for how many steps a member stays apart: it shares only with streams that need the same,
// and does not look for another group. It does so after it has left a group that was of no use.
type apartness struct{ steps, next int64 }

// leave sets the steps after a member has left a group. A member that falls behind again and again, or
// whose group's reader fails and reads more than the member needs, would join another such group at
// its next step, and each time a reader is opened.
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

// passed counts a step.
func (a *apartness) passed() { a.steps = max(0, a.steps-1) }
