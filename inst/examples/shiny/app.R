# A page that stays alive while a node computes: run it by
#
#   shiny::runApp(system.file("examples", "shiny", package = "clutch"))
#
# The clock goes on, other users of the page are served, and a computation can be given up.
# Needs shiny 1.8.1 or newer for ExtendedTask.

library(shiny)
library(clutch)

# One cluster for all users of the app, started in milliseconds and ended with the app.
cl <- make_cluster(2)
onStop(function() stop_cluster(cl))

ui <- fluidPage(
  titlePanel("The mean's confidence interval, by bootstrap"),
  sidebarLayout(
    sidebarPanel(
      selectInput("variable", "Variable of mtcars", names(mtcars)),
      numericInput("draws", "Resamples", 20000, min = 100, max = 1e6),
      actionButton("start", "Compute on a node"),
      actionButton("cancel", "Give up")
    ),
    mainPanel(
      p("The session's clock: ", textOutput("clock", inline = TRUE)),
      p("The task: ", textOutput("state", inline = TRUE)),
      tableOutput("interval")
    )
  )
)

# Runs on a node. It is found and sent there with what it needs.
bootstrap_mean <- function(x, draws) {
  means <- replicate(draws, mean(sample(x, replace = TRUE)))
  quantile(means, c(0.025, 0.5, 0.975))
}

server <- function(input, output, session) {
  running <- NULL
  interval <- ExtendedTask$new(function(x, draws) {
    # an object of cluster_submit() is a promise to shiny; its node computes, and this R does not
    running <<- cluster_submit(cl, bootstrap_mean(x, draws), .seed = 1)
  })
  observeEvent(input$start, interval$invoke(mtcars[[input$variable]], input$draws))
  observeEvent(input$cancel, if (!is.null(running)) cancel(running))
  # whose page is closed need not have it
  session$onSessionEnded(function() if (!is.null(running)) cancel(running))

  output$clock <- renderText({
    invalidateLater(200)
    format(Sys.time(), "%H:%M:%OS1")
  })
  output$state <- renderText(interval$status())
  output$interval <- renderTable({
    q <- interval$result()
    data.frame(bound = names(q), mean = unname(q))
  })
}

shinyApp(ui, server)
