# A picture of 10,000 tiles: very many small tasks, whose values have to be put together in order.
# It is the Mandelbrot set, 1,600 by 1,600 points; tiles within the set take longest.

# The upper left points of the tiles, and how far it is from point to point
tiling <- function(tiles = 100, points = 16) {
  step <- 3 / (tiles * points)
  corner <- step * points * (seq_len(tiles) - 1)
  at <- outer(corner - 2.2, 1i * (corner - 1.5), "+")
  list(at = as.vector(at), step = step, tiles = tiles, points = points)
}

# How many steps each point of a tile takes to leave the circle of radius 2, `most` at the most
steps_of <- function(at, step, points, most = 100L) {
  offset <- step * (seq_len(points) - 1)
  c <- at + outer(offset, 1i * offset, "+")
  z <- c
  steps <- integer(length(c))
  inside <- seq_along(c)
  for (k in seq_len(most)) {
    inside <- inside[Mod(z[inside]) < 2]
    if (!length(inside)) break
    steps[inside] <- k
    z[inside] <- z[inside]^2 + c[inside]
  }
  matrix(steps, points)
}

# The steps of all points: a matrix
mandelbrot <- function(map, tiles = 100) {
  t <- tiling(tiles)
  values <- map(t$at, function(at) steps_of(at, t$step, t$points))
  columns <- split(values, rep(seq_len(t$tiles), each = t$tiles))
  do.call(cbind, lapply(columns, function(x) do.call(rbind, x)))
}

if (sys.nframe() == 0L) { # run by Rscript
  library(clutch)
  cl <- make_cluster(available_cores())
  steps <- mandelbrot(function(x, f) cluster_map(cl, x, f))
  stop_cluster(cl)
  grDevices::png("mandelbrot.png", ncol(steps), nrow(steps))
  graphics::par(mar = rep(0, 4))
  graphics::image(steps, col = grDevices::hcl.colors(101), axes = FALSE, useRaster = TRUE)
  grDevices::dev.off()
}
