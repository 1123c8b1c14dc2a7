# What do the data say of infertility after abortions? A few tasks that take long: Bayesian logistic
# regression by Metropolis' algorithm, eight chains of 20,000 steps, on R's data set infert.
#
# Each chain gets its start and its seed from the session.

# The log of the posterior density, up to a constant: normal priors with standard deviation 2.5
log_posterior <- function(beta, x, y) {
  eta <- drop(x %*% beta)
  sum(y * eta - log1p(exp(eta))) + sum(stats::dnorm(beta, 0, 2.5, log = TRUE))
}

# A matrix with a row for each step after the first half
run_chain <- function(chain) {
  set.seed(chain$seed, kind = "Mersenne-Twister")
  x <- stats::model.matrix(case ~ scale(age) + parity + induced + spontaneous, datasets::infert)
  y <- datasets::infert$case
  draws <- matrix(0, chain$steps, ncol(x), dimnames = list(NULL, colnames(x)))
  beta <- chain$start
  density <- log_posterior(beta, x, y)
  for (k in seq_len(chain$steps)) {
    proposed <- beta + stats::rnorm(length(beta), 0, 0.15)
    new <- log_posterior(proposed, x, y)
    if (log(stats::runif(1)) < new - density) {
      beta <- proposed
      density <- new
    }
    draws[k, ] <- beta
  }
  draws[-seq_len(chain$steps / 2), ]
}

# A matrix: mean, standard deviation and Gelman's and Rubin's R for each coefficient. An R near 1
# says that the chains agree.
sample_posterior <- function(map, chains = 8, steps = 20000) {
  set.seed(3)
  starts <- lapply(seq_len(chains), function(k) {
    list(start = stats::rnorm(5), seed = sample.int(1e6, 1), steps = steps)
  })
  draws <- map(starts, run_chain)
  n <- nrow(draws[[1]])
  means <- sapply(draws, colMeans)
  within <- rowMeans(sapply(draws, apply, 2, stats::var))
  all <- do.call(rbind, draws)
  cbind(mean = colMeans(all), sd = apply(all, 2, stats::sd),
        R = sqrt((n - 1) / n + apply(means, 1, stats::var) / within))
}

if (sys.nframe() == 0L) { # run by Rscript
  library(clutch)
  cl <- make_cluster(available_cores())
  print(sample_posterior(function(x, f) cluster_map(cl, x, f)), digits = 3)
  stop_cluster(cl)
}
