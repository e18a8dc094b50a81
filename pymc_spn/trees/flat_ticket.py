"""The free variable that a tree always has: it carries the log joint of the step's last draw."""

from pymc_spn.steps.tickets import LogJointTicket, Ticket

NO_GRADIENT = (
    "ps.DecisionTree: only pm.sample moves the tree; a method that differentiates the log density in all variables "
    "(pm.find_MAP, pm.fit, pm.NUTS for everything) would hold it at one arbitrary state; sample, and take "
    "ps.TreePosterior.from_idata(idata), whose log_joint says which draw is the most probable"
)


class FlatTicket(Ticket):
    """Flat: the step alone writes it."""

    rv_op = LogJointTicket("DecisionTree", NO_GRADIENT)
