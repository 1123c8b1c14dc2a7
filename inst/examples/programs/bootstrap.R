# How certain is a Cox model? Many small fits, all alike: a bootstrap of the lung cancer data of
# package survival.
#
# The session draws the resamples, so the intervals are the same however many processes there are.
# bootstrap(lapply) does without any.

# The coefficients of a model of these rows
coefficients_of <- function(rows) {
  d <- survival::lung[rows, ]
  model <- survival::coxph(survival::Surv(time, status) ~ age + sex + ph.ecog, data = d)
  stats::coef(model)
}

# A matrix: 95 % intervals and medians of the hazard ratios. `map`: a function that is called as
# lapply() is.
bootstrap <- function(map, n = 5000) {
  set.seed(1)
  patients <- nrow(survival::lung)
  resamples <- replicate(n, sample(patients, replace = TRUE), simplify = FALSE)
  fits <- do.call(rbind, map(resamples, coefficients_of))
  ratios <- apply(exp(fits), 2, stats::quantile, c(0.025, 0.5, 0.975))
  t(ratios)
}

if (sys.nframe() == 0L) { # run by Rscript
  library(clutch)
  cl <- make_cluster(available_cores())
  print(round(bootstrap(function(x, f) cluster_map(cl, x, f)), 3))
  stop_cluster(cl)
}
