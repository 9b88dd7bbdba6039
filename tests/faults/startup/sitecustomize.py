"""Python imports a module of this name at its start: what the fault harness changes in a process of the pipeline.

It comes by PYTHONPATH into the processes that the harness starts, and into no others. The product knows nothing of it.
"""

import os

if os.environ.get("FAULTS_FOLDER"):
    import fault_clock
    import fault_models
    import fault_mutations
    import fault_settings
    from fault_imports import change_after_import

    fault_clock.install()
    change_after_import(fault_settings.read(), fault_models.CHANGES, fault_clock.CHANGES, fault_mutations.read())
    if os.environ.get("FAULTS_ENGINE") == "quick":
        import fault_engine
        import fault_unused

        fault_engine.install()
        fault_unused.install()
