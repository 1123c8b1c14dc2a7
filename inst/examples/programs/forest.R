# Which forest predicts best? Tasks that take from little to long: forests of rpart's trees, tuned
# by five-fold cross-validation on a soldering experiment: 900 boards, five factors, and the number
# of skips.
#
# Each task is one forest: one fold, one number of variables that a tree may use, one depth. Deep
# trees take several times as long as flat ones.

# A tree grown on a resample, with some of the variables
grow_tree <- function(train, variables, depth) {
  rows <- sample(nrow(train), replace = TRUE)
  used <- sample(setdiff(names(train), "skips"), variables)
  control <- rpart::rpart.control(maxdepth = depth, cp = 0, minsplit = 5, xval = 0)
  rpart::rpart(stats::reformulate(used, "skips"), train[rows, ], control = control)
}

# The mean squared error of a forest for the boards that it has not seen
error_of_forest <- function(task) {
  set.seed(task$seed, kind = "Mersenne-Twister")
  train <- rpart::solder[-task$test, ]
  test <- rpart::solder[task$test, ]
  predicted <- replicate(task$trees, {
    stats::predict(grow_tree(train, task$variables, task$depth), test)
  })
  mean((rowMeans(predicted) - test$skips)^2)
}

# A data frame of the settings and their errors, the best first.
tune_forest <- function(map, trees = 40) {
  set.seed(2)
  boards <- nrow(rpart::solder)
  fold_of <- sample(rep(1:5, length.out = boards))
  grid <- expand.grid(fold = 1:5, variables = 1:5, depth = c(2, 5, 10))
  seeds <- sample.int(1e6, nrow(grid))
  tasks <- lapply(seq_len(nrow(grid)), function(k) {
    list(test = which(fold_of == grid$fold[k]), variables = grid$variables[k],
         depth = grid$depth[k], trees = trees, seed = seeds[k])
  })
  grid$error <- unlist(map(tasks, error_of_forest))
  tuned <- stats::aggregate(error ~ variables + depth, grid, mean)
  tuned[order(tuned$error), ]
}

if (sys.nframe() == 0L) { # run by Rscript
  library(clutch)
  cl <- make_cluster(available_cores())
  # one task at a time: they differ, and there are few
  print(utils::head(tune_forest(function(x, f) cluster_map(cl, x, f, .chunk = 1))), digits = 3)
  stop_cluster(cl)
}
