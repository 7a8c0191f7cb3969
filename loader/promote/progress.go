package promote

import "sync"

// progressReport counts and reports the progress of a call.
type progressReport struct {
	mu     sync.Mutex
	now    PromotionProgress
	report func(PromotionProgress)
}

// list sets the numbers of all files and of finished files.
func (r *progressReport) list(files, done int) {
	r.update(func(now *PromotionProgress) { now.Files, now.FilesDone = files, done })
}

// update changes the counts and reports them.
func (r *progressReport) update(change func(*PromotionProgress)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.now)
	if r.report != nil {
		r.report(r.now)
	}
}
