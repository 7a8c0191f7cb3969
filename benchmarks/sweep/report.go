package main

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// The targets.
const (
	maxReads  = 1.3 // times the scan and join of one job
	maxVaried = 1.8 // the same, of jobs that vary
	maxFirst  = 500 * time.Millisecond
)

// median returns the pass with the median CPU time.
func median(all []cost) cost {
	all = slices.SortedFunc(slices.Values(all), func(a, b cost) int { return int((a.cpu - b.cpu) * 1000) })
	return all[len(all)/2]
}

// percentile returns the time that a share of all times does not exceed.
func percentile(all []time.Duration, share float64) time.Duration {
	all = slices.Sorted(slices.Values(all))
	return all[min(len(all)-1, int(share*float64(len(all))))]
}

// report prints the medians of a form of batches, and returns an error for each missed target.
func (s *sweep) report(form string, head bool, m measured) error {
	alone, shared, together, varied, echo := median(m.alone), median(m.shared), median(m.together), median(m.varied), median(m.echo)
	reads := (together.cpu - float64(s.jobs)*echo.cpu) / (alone.cpu - echo.cpu)
	variedReads := (varied.cpu - float64(variedJobs)*echo.cpu) / (alone.cpu - echo.cpu)
	last := percentile(m.firsts, 0.99)
	if head {
		fmt.Println("| batches | one job: CPU s, seconds | one job, sharing on: CPU s, seconds | echo, all jobs at once: CPU s per job, seconds | jobs | all jobs at once: CPU s, seconds | CPU s / that of separate jobs | scans and joins | 8 jobs that vary: CPU s, seconds | scans and joins | first batch of the crowd: p50, p99 | first batch of the echo: p50, p99 |")
		fmt.Println("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
	}
	fmt.Printf("| %s | %s | %s | %s | %d | %s | %.2f | %.2f | %s | %.2f | %.2f, %.2f s | %.2f, %.2f s |\n", form, alone, shared, echo, s.jobs, together,
		together.cpu/(float64(s.jobs)*alone.cpu), reads, varied, variedReads, percentile(m.firsts, 0.5).Seconds(), last.Seconds(),
		percentile(m.echoes, 0.5).Seconds(), percentile(m.echoes, 0.99).Seconds())
	var missed error
	if reads > maxReads {
		missed = errors.Join(missed, fmt.Errorf("%s: %d jobs cost %.2f times the scan and join of one, more than %g", form, s.jobs, reads, maxReads))
	}
	if variedReads > maxVaried {
		missed = errors.Join(missed, fmt.Errorf("%s: %d jobs that vary cost %.2f times the scan and join of one, more than %g", form, variedJobs, variedReads, maxVaried))
	}
	if last > maxFirst {
		missed = errors.Join(missed, fmt.Errorf("%s: the first batch of a job among %d took %s", form, s.crowd, last))
	}
	return missed
}

// reportUneven prints what jobs cost of which some read in their own ways, and returns an error if that is more
// than what they read.
func (s *sweep) reportUneven(form string, m measured, u uneven) error {
	alone, echo := median(m.alone), median(m.echo)
	reads := (u.cpu - float64(s.jobs)*echo.cpu) / (alone.cpu - echo.cpu)
	most := maxReads + u.read - 1
	fmt.Printf("%s: %d jobs, of which one is late, one slow, and one ends and resumes: %.2f CPU s, %.2f scans and joins (at most %.2f)\n",
		form, s.jobs, u.cpu, reads, most)
	if reads > most {
		return fmt.Errorf("%s: late, slow and resumed jobs cost %.2f scans and joins, more than %.2f", form, reads, most)
	}
	return nil
}

// String implements fmt.Stringer.
func (c cost) String() string { return fmt.Sprintf("%.2f, %.2f", c.cpu, c.took.Seconds()) }
