// `attacca`: one command with subcommands. Exit status: 0 done, 1 failed, 2 wrong usage.
#include <attacca/error.hpp>
#include <attacca/version.hpp>
#include <cstdio>
#include <exception>
#include <new>
#include <string>

#include "command.hpp"
#include "output.hpp"
#include "usage.hpp"

namespace {

constexpr int kFailed = 1;
constexpr int kWrongUsage = 2;

int run(int argc, char** argv) {
  CLI::App app("Graphs that keep a GPU from going idle, and language models on them.", "attacca");
  app.set_version_flag("--version", std::string("attacca ") + attacca::version());
  app.require_subcommand(0, 1);
  app.footer(
      "Examples:\n"
      "  attacca help run            what a command does, and its options\n"
      "  attacca run                 talk to the embedded model\n"
      "  attacca pull smollm2        fetch a real chat model, for attacca run smollm2\n"
      "  attacca doctor              what this machine and this build can do\n"
      "  attacca doctor --json       the same for a program\n"
      "  attacca demo                a graph with a loop, built, printed and run\n"
      "  attacca bench list          what was measured, and can be measured here\n"
      "  attacca graph --help        print an example's graph as text, DOT or JSON\n"
      "  attacca example --help      run one of the examples");
#if ATTACCA_WITH_LLM
  attacca::tool::add_run(app);
  attacca::tool::add_pull(app);
  attacca::tool::add_inspect(app);
  attacca::tool::add_tokenize(app);
  attacca::tool::add_score(app);
  attacca::tool::add_convert(app);
#endif
  attacca::tool::add_bench(app);
  attacca::tool::add_demo(app);
  attacca::tool::add_doctor(app);
  attacca::tool::add_example(app);
  attacca::tool::add_graph(app);
  attacca::tool::add_help(app);
  attacca::tool::check_flags(app);
  const auto refuse = [&](const std::string& why) {
    std::fprintf(stderr, "attacca: %s\nSee %s.\n", why.c_str(),
                 attacca::tool::help_of(app).c_str());
    return kWrongUsage;
  };
  try {
    app.parse(attacca::tool::words_of(argc, argv));
  } catch (const CLI::Success& asked) {  // --help and --version
    return app.exit(asked);
  } catch (const CLI::RuntimeError& chosen) {  // a callback that picks its exit status
    return chosen.get_exit_code();
  } catch (const CLI::ExtrasError&) {
    return refuse(attacca::tool::unexpected_word(app));
  } catch (const CLI::ParseError& error) {
    return refuse(error.what());
  } catch (const attacca::BadArgument& error) {
    throw attacca::BadArgument(attacca::tool::in_words_of_options(app, error.what()));
  }
  if (app.get_subcommands().empty()) std::fputs(app.help().c_str(), stdout);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const int status = run(argc, argv);
    attacca::tool::finish_output();
    return status;
  } catch (const std::bad_alloc&) {
    std::fputs("attacca: there is not enough memory\n", stderr);
    return kFailed;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "attacca: %s\n", error.what());
    return kFailed;
  }
}
