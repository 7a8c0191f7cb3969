package audit

import "time"

// Hurry replaces the time that lines wait for those before them.
func (l *Log) Hurry(patience time.Duration) { l.patience = patience }
