package main

// sizes are the sizes of a run's tables and crowds, and its times.
type sizes struct {
	requests  int // of t, ten rows each
	spilled   int // staging rows of the table that does not fit, of about 820 bytes
	lanes     int // of the table with a bucket for each
	stalled   int // the larger crowd
	budgets   []int64
	rounds    int // of alternating measurements
	churn     int // seconds
	kills     int
	damages   int
	mutations int // messages with rows that are damaged
}

func fullSizes() sizes {
	return sizes{
		requests: 200_000, spilled: 1_200_000, lanes: 4096, stalled: 1000, budgets: []int64{256 * mebi, gibi, 4 * gibi},
		rounds: 5, churn: 600, kills: 40, damages: 400, mutations: 1_000_000,
	}
}

func quickSizes() sizes {
	return sizes{
		requests: 30_000, spilled: 150_000, lanes: 512, stalled: 200, budgets: []int64{256 * mebi},
		rounds: 3, churn: 20, kills: 4, damages: 40, mutations: 5_000,
	}
}

// wideRows is the number of rows of the wide table: more than the largest requested batch,
// 1,048,576.
const wideRows = 1_100_000

// tables are the training and the staging table of each dataset. A dataset has the name of its
// training table:
//
//	t     what a recommender logs: 18 columns, and 12 of features with a list
//	wide  20 list columns of features, 8 KB a row, in small tables
//	long  lists and strings; one row has a megabyte
//	spill features of one file group that fits in no small budget
//	many  a bucket, so a split, for each lane
func (s sizes) tables() [][2]shape {
	training := append(several("n", 12, longs, 0), append(several("x", 3, doubles, 0), several("s", 2, texts, 12)...)...)
	features := append(several("fn", 6, longs, 0), append(several("fx", 4, doubles, 0), several("fl", 1, lists, 50)...)...)
	return [][2]shape{
		{
			{"t", s.requests, 10, 16, training},
			{"t_features", s.requests, 1, 16, features},
		}, {
			{"wide", wideRows / 100, 100, 4, several("n", 1, longs, 0)},
			{"wide_features", wideRows / 100, 1, 4, several("l", 20, lists, 50)},
		}, {
			{"long", 64, 128, 2, several("n", 1, longs, 0)},
			{"long_features", 64, 1, 2, append(several("l", 1, lists, 80_000), several("s", 1, texts, 400_000)...)},
		}, {
			{"spill", s.spilled / 2, 1, 0, several("n", 1, longs, 0)},
			{"spill_features", s.spilled, 1, 0, append(several("fn", 1, longs, 0), several("l", 1, lists, 100)...)},
		}, {
			{"many", s.lanes * 250, 2, s.lanes, append(several("n", 1, longs, 0), several("s", 1, texts, 250)...)},
			{"many_features", s.lanes * 250, 1, 16, several("fn", 4, longs, 0)},
		},
	}
}
